#!lua flags=allow-oom
-- Settles deliveries: result record, counters, slot, payload and exec entry in one step each.
-- KEYS[1] prefix of the namespace
-- ARGV[1] worker
-- ARGV[2] length of the results stream, 0 untrimmed
-- ARGV[3] done memory in ms
-- ARGV[4] most keys in the done memory
-- ARGV[5...] queue, entry, epoch, outcome, digest, started, finished of each delivery
-- RETURNS one 1 (settled) or 0 (stale token, nothing changed) per delivery
--#include keys clock ids counts context heads run served settle wake
load_context()
local now = now_ms()
local limits = { tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]) }
trim_done(limits, now)
local worker, replies, payloads, done, released = ARGV[1], {}, {}, {}, {}

-- run records of a queue are read, and what is settled is removed, in one command each
local asked, records, settled = {}, {}, {}
for i = 5, #ARGV, 7 do
  local entries = asked[ARGV[i]] or {}
  asked[ARGV[i]] = entries
  entries[#entries + 1] = ARGV[i + 1]
end
for queue, entries in pairs(asked) do
  local raw, of_queue = redis.call('HMGET', queue_key('running', queue), unpack(entries)), {}
  for j = 1, #entries do of_queue[entries[j]] = raw[j] end
  records[queue], settled[queue] = of_queue, {}
end

for i = 5, #ARGV, 7 do
  local queue, entry = ARGV[i], ARGV[i + 1]
  local run = unpack_run(records[queue][entry], tonumber(ARGV[i + 2]))
  if run then
    records[queue][entry] = nil -- the same token twice in a batch settles once
    local task_key = settle(queue, entry, run, { outcome = ARGV[i + 3], digest = ARGV[i + 4],
      started = ARGV[i + 5], finished = ARGV[i + 6], worker = worker }, limits, false)
    payloads[#payloads + 1] = task_key
    done[#done + 1] = task_key
    done[#done + 1] = ARGV[i + 4]
    tally('running', run.tenant, -1)
    settled[queue][#settled[queue] + 1] = entry
    released[run.tenant] = context.caps or nil
  else
    count('resettled', queue, 1)
  end
  replies[#replies + 1] = run and 1 or 0
end
if not payloads[1] then
  write_counts()
  return replies
end
redis.call('HDEL', key('payload'), unpack(payloads))
redis.call('HSET', key('done:new'), unpack(done))
for queue, entries in pairs(settled) do
  if entries[1] then
    count('dispatched', queue, -#entries)
    redis.call('HDEL', queue_key('running', queue), unpack(entries))
    redis.call('XACK', queue_key('exec', queue), 'workers', unpack(entries))
    redis.call('XDEL', queue_key('exec', queue), unpack(entries))
    redis.call('HDEL', queue_key('superseded', queue), unpack(entries))
  end
end
local woken = redis.call('DEL', key('starved')) == 1
for tenant in pairs(released) do woken = release(tenant) or woken end
write_back()
if woken then wake('credit') end
return replies
