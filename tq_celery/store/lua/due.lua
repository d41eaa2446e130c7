#!lua flags=no-writes
-- Reads delayed tasks whose time has come, most urgent first within one millisecond.
-- KEYS[1] prefix of the namespace
-- ARGV[1] most tasks to return
-- RETURNS {{member, due, ...}, ms until the next task is due or -1}
--#include keys clock
local now = now_ms()
local ready = redis.call('ZRANGE', key('delayed'), '-inf', now, 'BYSCORE', 'LIMIT', 0, ARGV[1],
  'WITHSCORES')
local following = redis.call('ZRANGE', key('delayed'), '(' .. now, '+inf', 'BYSCORE', 'LIMIT', 0, 1,
  'WITHSCORES')
return { ready, following[2] and math.max(0, math.ceil(following[2] - now)) or -1 }
