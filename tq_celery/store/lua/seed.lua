#!lua
-- Writes configuration fields that the namespace does not have yet; ageing only with the policy.
-- KEYS[1] prefix of the namespace
-- ARGV[1...] field, value pairs
-- RETURNS the whole configuration as field, value pairs
--#include keys
-- Ranks of one generation follow one rule, so a rule is not added to where some may exist.
local ranked = redis.call('HEXISTS', key('config'), 'policy') == 1
for i = 1, #ARGV, 2 do
  if not (ranked and ARGV[i] == 'ageing') then
    redis.call('HSETNX', key('config'), ARGV[i], ARGV[i + 1])
  end
end
return redis.call('HGETALL', key('config'))
