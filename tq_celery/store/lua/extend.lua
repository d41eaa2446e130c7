#!lua flags=allow-oom
-- Renews the lease if the owner still holds it under its epoch.
-- KEYS[1] prefix of the namespace
-- ARGV[1] owner
-- ARGV[2] epoch
-- ARGV[3] ttl in ms
-- RETURNS 1 when renewed, 0 when the lease belongs to nobody or to another grant
--#include keys
if redis.call('GET', key('leader')) ~= ARGV[1] then return 0 end
if redis.call('GET', key('epoch')) ~= ARGV[2] then return 0 end
return redis.call('PEXPIRE', key('leader'), ARGV[3])
