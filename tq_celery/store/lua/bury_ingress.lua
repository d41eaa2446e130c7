#!lua
-- Moves unreadable ingress entries to the dead-letter stream with their raw fields.
-- KEYS[1] prefix of the namespace
-- ARGV[1] epoch
-- ARGV[2] reason
-- ARGV[3...] entries
-- RETURNS number moved; error TQFENCED
--#include keys clock fence
local refusal = fenced(tonumber(ARGV[1]))
if refusal then return refusal end
local moved = 0
for i = 3, #ARGV do
  local found = redis.call('XRANGE', key('ingress'), ARGV[i], ARGV[i])[1]
  if found then
    local fields = { 'reason', ARGV[2], 'outcome', 'dead', 'at', now_ms(), 'entry', ARGV[i] }
    for j = 1, #found[2], 2 do
      fields[#fields + 1] = 'raw_' .. found[2][j]
      fields[#fields + 1] = found[2][j + 1]
    end
    redis.call('XADD', key('dead'), '*', unpack(fields))
    redis.call('XDEL', key('ingress'), ARGV[i])
    redis.call('HINCRBY', key('counters'), 'unreadable:ingress', 1)
    moved = moved + 1
  end
end
return moved
