#!lua flags=allow-oom
-- Releases the lease if the owner holds it under its epoch, and wakes the standbys.
-- KEYS[1] prefix of the namespace
-- ARGV[1] owner
-- ARGV[2] epoch
-- RETURNS 1 when released, 0 when it was not held
--#include keys
if redis.call('GET', key('leader')) ~= ARGV[1] then return 0 end
if redis.call('GET', key('epoch')) ~= ARGV[2] then return 0 end
redis.call('DEL', key('leader'))
redis.call('XADD', key('leadership'), 'MAXLEN', '~', 1000, '*', 'k', 'released', 'owner', ARGV[1],
  'epoch', ARGV[2])
return 1
