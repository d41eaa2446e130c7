#!lua
-- Pauses a queue (nothing of it is dispatched) or resumes it.
-- KEYS[1] prefix of the namespace
-- ARGV[1] queue
-- ARGV[2] 1 to pause, 0 to resume
-- RETURNS 1 when the queue was in the other state before, else 0
--#include keys wake
local changed = redis.call(ARGV[2] == '1' and 'SADD' or 'SREM', key('paused_queues'), ARGV[1])
wake('config')
return changed
