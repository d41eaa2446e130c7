#!lua
-- Moves ranked due tasks from delayed to pending.
-- KEYS[1] prefix of the namespace
-- ARGV[1] epoch
-- ARGV[2] generation the ranks belong to
-- ARGV[3...] member, queue, tenant, score, record of each task
-- RETURNS number moved, -1 when the generation is not current; error TQFENCED
--#include keys clock counts fence context heads deliver admission
local epoch = tonumber(ARGV[1])
local refusal = fenced(epoch)
if refusal then return refusal end
if load_context().generation ~= tonumber(ARGV[2]) then return -1 end
local packed_now, moved = struct.pack('>I8', now_ms()), 0
for i = 3, #ARGV, 5 do
  if redis.call('ZREM', key('delayed'), ARGV[i]) == 1 then
    gather(ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], stamp(ARGV[i + 4], packed_now))
    moved = moved + 1
  end
end
admit_gathered('delayed', epoch)
write_back()
return moved
