-- What is known of a task when it ends: the service its tenant got, its wait, and its deadline.
-- Gathered while tasks are settled, and written once with the counters.
-- A record of `service`: microseconds of service, waits, ms waited, ms of the last end (8 each), and
-- whether the tenant has series of its own (1). What is served without one is counted as `other`.
local SERVED, MOST_SERVED = '>I8I8I8I8B', 5000
-- Ends after which a deadline was kept or missed: work that goes on, is unwanted or dead is apart.
local JUDGED = { completed = true, failed = true, ignored = true, rejected = true, expired = true }
-- By tenant: microseconds, waits, ms waited. By queue: microseconds, longest wait (-1: none).
local served, ends = {}, {}

-- The longest wait is kept in two fields that take turns by the hour, so that the hour before is
-- there still; the hour stands before the ms, so a later one is greater whatever the wait. One that
-- is to come was written before the clock was set back.
local function write_ends(now)
  local hour = math.floor(now / 3600000)
  for queue, each in pairs(ends) do
    count('service', queue, each[1])
    if each[2] >= 0 then
      keep_greatest('longest' .. hour % 2, queue, hour * 1e10 + math.min(each[2], 1e10 - 1),
        (hour + 1) * 1e10)
    end
  end
end

closing[#closing + 1] = function()
  local tenants, n = {}, 0
  for tenant in pairs(served) do
    n = n + 1
    tenants[n] = tenant
  end
  if n == 0 then return end
  local now, name, list, m, room = now_ms(), key('service'), {}, 0, nil
  write_ends(now)
  local old, read, write = redis.call('HMGET', name, unpack(tenants)), struct.unpack, struct.pack
  local other_micros, other_waits, other_waited = 0, 0, 0
  for i = 1, n do
    local tenant, record, add = tenants[i], old[i], served[tenants[i]]
    local micros, waits, waited, _, shown = 0, 0, 0, 0, 0
    if record and #record == 33 then
      micros, waits, waited, _, shown = read(SERVED, record)
    elseif not record then
      room = (room or MOST_SERVED - redis.call('HLEN', name)) - 1
    end
    if record or room >= 0 then
      list[m + 1] = tenant
      list[m + 2] = write(SERVED, micros + add[1], waits + add[2], waited + add[3], now, shown)
      m = m + 2
    end
    if shown == 0 then
      other_micros, other_waits, other_waited =
        other_micros + add[1], other_waits + add[2], other_waited + add[3]
    end
  end
  if m > 0 then redis.call('HSET', name, unpack(list, 1, m)) end
  count('other', 'service', other_micros)
  count('other', 'waits', other_waits)
  count('other', 'waited', other_waited)
  served, ends = {}, {}
end

-- `waited` is nil for a task that was never dispatched; `how` as of `settle`.
local function note_end(queue, tenant, how, deadline, waited)
  local started, finished, micros = tonumber(how.started) or 0, tonumber(how.finished) or 0, 0
  if started > 0 then
    micros = math.floor((finished - started) * 1000 + 0.5)
    if not (micros > 0 and micros < 2 ^ 52) then micros = 0 end -- nor what is not a number
  end
  if deadline < 9007199254740991 and JUDGED[how.outcome] then
    count('due', queue, 1)
    if finished > deadline then count('missed', queue, 1) end
  end
  if not waited and micros == 0 then return end
  local each, of_queue = served[tenant], ends[queue]
  if not each then
    each = { 0, 0, 0 }
    served[tenant] = each
  end
  if not of_queue then
    of_queue = { 0, -1 }
    ends[queue] = of_queue
  end
  each[1], of_queue[1] = each[1] + micros, of_queue[1] + micros
  if waited then
    waited = math.max(0, waited)
    each[2], each[3] = each[2] + 1, each[3] + waited
    if waited > of_queue[2] then of_queue[2] = waited end
  end
end
