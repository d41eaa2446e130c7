#!lua flags=allow-oom
-- Settles deliveries: result record, counters, slot, payload and exec entry in one step each.
-- KEYS[1] prefix of the namespace
-- ARGV[1] worker
-- ARGV[2] length of the results stream, 0 untrimmed
-- ARGV[3] done memory in ms
-- ARGV[4] most keys in the done memory
-- ARGV[5...] queue, entry, epoch, outcome, digest, started, finished of each delivery
-- RETURNS one 1 (settled) or 0 (stale token, nothing changed) per delivery
--#include keys clock counts heads run settle wake
load_context()
local now = now_ms()
local limits = { tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]) }
trim_done(limits, now)
local worker, replies, gone, payloads, released = ARGV[1], {}, {}, {}, {}
for i = 5, #ARGV, 7 do
  local queue, entry = ARGV[i], ARGV[i + 1]
  local run = current_run(queue, entry, tonumber(ARGV[i + 2]))
  if run then
    -- removed at once, so that the same token twice in a batch settles once
    redis.call('HDEL', queue_key('running', queue), entry)
    payloads[#payloads + 1] = settle(queue, entry, run, { outcome = ARGV[i + 3], digest = ARGV[i + 4],
      started = ARGV[i + 5], finished = ARGV[i + 6], worker = worker }, limits)
    tally('running', run.tenant, -1)
    count('dispatched', queue, -1)
    local entries = gone[queue] or {}
    gone[queue] = entries
    entries[#entries + 1] = entry
    released[run.tenant] = context.caps or nil
  end
  replies[#replies + 1] = run and 1 or 0
end
if not payloads[1] then return replies end
redis.call('HDEL', key('payload'), unpack(payloads))
for queue, entries in pairs(gone) do
  redis.call('XACK', queue_key('exec', queue), 'workers', unpack(entries))
  redis.call('XDEL', queue_key('exec', queue), unpack(entries))
  redis.call('HDEL', queue_key('superseded', queue), unpack(entries))
end
local woken = redis.call('DEL', key('starved')) == 1
for tenant in pairs(released) do woken = release(tenant) or woken end
write_counts()
if woken then wake('credit') end
return replies
