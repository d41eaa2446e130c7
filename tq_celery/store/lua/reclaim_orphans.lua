#!lua flags=allow-oom
-- Takes back what nobody will read or settle: unread entries of a queue without workers, entries
-- read by a consumer that has no lease, and run records whose exec entry is gone.
-- KEYS[1] prefix of the namespace
-- ARGV[1] queue
-- ARGV[2] least age in ms
-- ARGV[3] length of the results stream, 0 untrimmed
-- ARGV[4] done memory in ms
-- ARGV[5] most keys in the done memory
-- ARGV[6] length of the dead-letter stream, 0 untrimmed
-- ARGV[7] most deliveries in this call
-- RETURNS number taken back
--#include keys clock place ids counts context heads run served settle bury aside restore raw recall wake
-- most slices of run records that one call looks at
local SLICES = 8
local queue, age, batch = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[7])
local now, stream, taken = now_ms(), queue_key('exec', queue), 0
load_context()
local limits = { tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]) }
local policy = { word = 'reclaimed', budget = 0, counted = false, delay = 0, reason = '',
  worker = '' }
local function give(entry)
  local run = current_run(queue, entry, nil)
  if not run then return end
  restore(queue, entry, run, policy, limits, tonumber(ARGV[6]), now)
  if context.caps then release(run.tenant) end
  taken = taken + 1
end

local served = false
local leased = redis.call('ZRANGE', key('workers'), 0, -1, 'WITHSCORES')
local known = {}
for i = 1, #leased, 2 do
  known[leased[i]] = true
  local offer = redis.call('HGET', key('announcements'), leased[i])
  local ok, parsed = pcall(cjson.decode, offer or '')
  if ok and tonumber(leased[i + 1]) + age > now then
    for _, each in ipairs(parsed.queues or {}) do served = served or each == queue end
  end
end

local consumers = redis.pcall('XINFO', 'CONSUMERS', stream, 'workers')
for _, each in ipairs(consumers.err and {} or consumers) do
  local name, idle = each[2], each[6]
  if not known[name] and idle > age and taken < batch then
    local found = recall(queue, name, batch - taken, policy, limits, tonumber(ARGV[6]), now)
    taken = taken + found
    if each[4] <= found then redis.call('XGROUP', 'DELCONSUMER', stream, 'workers', name) end
  end
end

if not served then
  local last = '-'
  local groups = redis.pcall('XINFO', 'GROUPS', stream)
  for _, each in ipairs(groups.err and {} or groups) do last = '(' .. each[8] end
  for _, each in ipairs(redis.call('XRANGE', stream, last, now - age, 'COUNT', batch)) do
    give(each[1])
  end
end

-- a deleted exec stream leaves run records behind; a bounded look at each call finds them
local cursor = redis.call('HGET', key('scan'), queue) or '0'
for _ = 1, SLICES do
  local slice = redis.call('HSCAN', queue_key('running', queue), cursor, 'COUNT', batch)
  cursor = slice[1]
  for i = 1, #slice[2], 2 do
    local entry = slice[2][i]
    local born = tonumber(string.match(entry, '^%d+') or '0')
    if born + age < now and not redis.call('XRANGE', stream, entry, entry)[1] then give(entry) end
  end
  if cursor == '0' or taken >= batch then break end
end
redis.call('HSET', key('scan'), queue, cursor)
write_back()
if taken > 0 then
  redis.call('DEL', key('starved'))
  wake('returned')
end
return taken
