#!lua
-- Moves unreadable members of the delayed set to the dead-letter stream with their bytes.
-- KEYS[1] prefix of the namespace
-- ARGV[1] epoch
-- ARGV[2...] member, reason of each
-- RETURNS number moved; error TQFENCED
--#include keys clock fence
local refusal = fenced(tonumber(ARGV[1]))
if refusal then return refusal end
local moved, now = 0, now_ms()
for i = 2, #ARGV, 2 do
  if redis.call('ZREM', key('delayed'), ARGV[i]) == 1 then
    redis.call('XADD', key('dead'), '*', 'queue', 'delayed', 'reason', ARGV[i + 1],
      'outcome', 'dead', 'at', now, 'raw_member', ARGV[i])
    redis.call('HINCRBY', key('counters'), 'unreadable:delayed', 1)
    moved = moved + 1
  end
end
return moved
