-- What is known of a task when it ends: the service its tenant got, its wait, and its deadline.
-- Gathered while tasks are settled, and written once with the counters.
-- A record of `service`: microseconds of service, waits, ms waited, ms of the last end (8 each), and
-- whether the tenant has series of its own (1). What is served without one is counted as `other`.
local SERVED, MOST_SERVED = '>I8I8I8I8B', 5000
-- Ends after which a deadline was kept or missed: work that goes on, is unwanted or dead is apart.
local JUDGED = { completed = true, failed = true, ignored = true, rejected = true, expired = true }
local served, longest = {}, {}

-- Two fields take turns by the hour, so that the hour before is there still; the hour stands before
-- the ms, and a later one is greater whatever the wait.
local function write_longest(now)
  local hour = math.floor(now / 3600000)
  for queue, waited in pairs(longest) do
    keep_greatest('longest' .. hour % 2, queue, hour * 1e10 + math.min(waited, 1e10 - 1))
  end
  longest = {}
end

closing[#closing + 1] = function()
  local tenants, n = {}, 0
  for tenant in pairs(served) do
    n = n + 1
    tenants[n] = tenant
  end
  if n == 0 then return end
  local now, name, new, room = now_ms(), key('service'), {}, nil
  write_longest(now)
  local old = redis.call('HMGET', name, unpack(tenants))
  for i = 1, n do
    local tenant, record, add = tenants[i], old[i], served[tenants[i]]
    local micros, waits, waited, shown = 0, 0, 0, 0
    if record then
      local _
      micros, waits, waited, _, shown = struct.unpack(SERVED, record)
    else
      room = (room or MOST_SERVED - redis.call('HLEN', name)) - 1
    end
    if record or room >= 0 then
      new[#new + 1] = tenant
      new[#new + 1] =
        struct.pack(SERVED, micros + add[1], waits + add[2], waited + add[3], now, shown)
    end
    if shown == 0 then
      count('other', 'service', add[1])
      count('other', 'waits', add[2])
      count('other', 'waited', add[3])
    end
  end
  if new[1] then redis.call('HSET', name, unpack(new)) end
  served = {}
end

-- `waited` is nil for a task that was never dispatched; `how` as of `settle`.
local function note_end(queue, tenant, how, deadline, waited)
  local started, finished = tonumber(how.started) or 0, tonumber(how.finished) or 0
  local micros = started > 0 and math.floor((finished - started) * 1000 + 0.5) or 0
  if not (micros > 0 and micros < 2 ^ 52) then micros = 0 end -- nor what is not a number
  if deadline < 9007199254740991 and JUDGED[how.outcome] then
    count('due', queue, 1)
    if finished > deadline then count('missed', queue, 1) end
  end
  if micros > 0 then count('service', queue, micros) end
  if not waited and micros == 0 then return end
  local each = served[tenant]
  if not each then
    each = { 0, 0, 0 }
    served[tenant] = each
  end
  each[1] = each[1] + micros
  if waited then
    waited = math.max(0, waited)
    each[2], each[3] = each[2] + 1, each[3] + waited
    longest[queue] = math.max(waited, longest[queue] or 0)
  end
end
