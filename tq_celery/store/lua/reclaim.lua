#!lua flags=allow-oom
-- Takes back a lapsed worker's deliveries and forgets it once it holds none.
-- KEYS[1] prefix of the namespace
-- ARGV[1] worker
-- ARGV[2] length of the results stream, 0 untrimmed
-- ARGV[3] done memory in ms
-- ARGV[4] most keys in the done memory
-- ARGV[5] length of the dead-letter stream, 0 untrimmed
-- ARGV[6] most deliveries in this call
-- ARGV[7] budget of lost deliveries
-- ARGV[8] 1 when this loss counts against the budget
-- ARGV[9] ms over which those come back, one at a time, that are lost for the second time or more
-- RETURNS number taken back, -1 when the worker's lease is current
--#include keys clock place ids counts context heads run served settle bury aside restore raw recall wake
local now = now_ms()
local expires = tonumber(redis.call('ZSCORE', key('workers'), ARGV[1]) or '0')
if expires > now then return -1 end
load_context()
local limits = { tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]) }
local policy = { word = 'reclaimed', budget = tonumber(ARGV[7]), counted = ARGV[8] == '1',
  spread = tonumber(ARGV[9]), reason = 'worker lost', worker = ARGV[1] }
local taken = recall_worker(ARGV[1], tonumber(ARGV[6]),
  policy, limits, tonumber(ARGV[5]), now)
write_back()
redis.call('DEL', key('starved'))
wake('workers')
if policy.delayed then wake('delayed') end
return taken
