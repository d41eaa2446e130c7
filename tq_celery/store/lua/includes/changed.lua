-- Notes when a rule of dispatching changed, for whoever compares later what was dispatched with it.
local function note_change(what) redis.call('HSET', key('changes'), what, now_ms()) end
