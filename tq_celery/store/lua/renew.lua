#!lua flags=allow-oom
-- Extends a worker's lease and publishes what it offers; a change wakes the leader.
-- KEYS[1] prefix of the namespace
-- ARGV[1] worker
-- ARGV[2] lease in ms
-- ARGV[3] announcement, JSON; '' keeps the last one
-- RETURNS {'renewed' | 'joined', seconds, microseconds of the server's clock}
--#include keys clock wake
local time = redis.call('TIME')
local expires = time[1] * 1000 + math.floor(time[2] / 1000) + tonumber(ARGV[2])
local known = redis.call('ZSCORE', key('workers'), ARGV[1])
redis.call('ZADD', key('workers'), expires, ARGV[1])
if ARGV[3] ~= '' and redis.call('HGET', key('announcements'), ARGV[1]) ~= ARGV[3] then
  redis.call('HSET', key('announcements'), ARGV[1], ARGV[3])
  wake('workers')
end
return { known and 'renewed' or 'joined', time[1], time[2] }
