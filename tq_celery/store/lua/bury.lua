#!lua flags=allow-oom
-- Moves one delivery to the dead-letter stream; an entry that nobody dispatched keeps its raw fields.
-- KEYS[1] prefix of the namespace
-- ARGV[1] worker
-- ARGV[2] length of the results stream, 0 untrimmed
-- ARGV[3] done memory in ms
-- ARGV[4] most keys in the done memory
-- ARGV[5] length of the dead-letter stream, 0 untrimmed
-- ARGV[6] queue
-- ARGV[7] entry
-- ARGV[8] epoch
-- ARGV[9] reason
-- RETURNS 1 when buried, 0 for a stale token
--#include keys clock place ids counts context heads run served settle bury raw wake
load_context()
local queue, entry, now = ARGV[6], ARGV[7], now_ms()
local limits = { tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]) }
local run = current_run(queue, entry, tonumber(ARGV[8]))
if run then
  close_run(queue, entry, run)
  redis.call('HDEL', queue_key('superseded', queue), entry)
  bury_run(queue, entry, run, { reason = ARGV[9], worker = ARGV[1], started = 0, finished = now },
    limits, tonumber(ARGV[5]), now)
  if context.caps then release(run.tenant) end
  write_back()
  if redis.call('DEL', key('starved')) == 1 then wake('credit') end
  return 1
end
local stream = queue_key('exec', queue)
if redis.call('HEXISTS', queue_key('running', queue), entry) == 1
  or not bury_raw(stream, queue, entry, ARGV[9], now) then
  redis.call('HINCRBY', key('counters'), 'resettled:' .. queue, 1)
  return 0
end
redis.call('XACK', stream, 'workers', entry)
return 1
