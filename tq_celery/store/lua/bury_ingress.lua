#!lua
-- Moves unreadable ingress entries to the dead-letter stream with their raw fields.
-- KEYS[1] prefix of the namespace
-- ARGV[1] epoch
-- ARGV[2] reason
-- ARGV[3...] entries
-- RETURNS number moved; error TQFENCED
--#include keys clock fence raw
local refusal = fenced(tonumber(ARGV[1]))
if refusal then return refusal end
local moved, now = 0, now_ms()
for i = 3, #ARGV do
  if bury_raw(key('ingress'), 'ingress', ARGV[i], ARGV[2], now) then moved = moved + 1 end
end
return moved
