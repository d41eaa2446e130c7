-- Notes when a rule of dispatching changed, for whoever compares later what was dispatched with it.
local function note_change(what)
  local time = redis.call('TIME')
  redis.call('HSET', key('changes'), what, time[1] * 1000 + math.floor(time[2] / 1000))
end
