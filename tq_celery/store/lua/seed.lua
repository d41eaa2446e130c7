#!lua
-- Writes configuration fields that the namespace does not have yet.
-- KEYS[1] prefix of the namespace
-- ARGV[1...] field, value pairs
-- RETURNS the whole configuration as field, value pairs
--#include keys
for i = 1, #ARGV, 2 do redis.call('HSETNX', key('config'), ARGV[i], ARGV[i + 1]) end
return redis.call('HGETALL', key('config'))
