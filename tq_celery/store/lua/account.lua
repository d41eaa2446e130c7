#!lua
-- Adds up the time of the slots since the last call, and says which tenants have series of their own.
-- KEYS[1] prefix of the namespace
-- ARGV[1] epoch
-- ARGV[2] slots of live workers
-- ARGV[3] those of them that have a delivery
-- ARGV[4] most ms that count
-- ARGV[5...] tenant, what becomes of its record: shown, hidden or forgotten
-- RETURNS ms that were counted; error TQFENCED
--#include keys clock fence
local refusal = fenced(tonumber(ARGV[1]))
if refusal then return refusal end
local now, name, counters = now_ms(), key('service'), key('counters')
local last = tonumber(redis.call('GET', key('accounted')) or now)
local passed = math.max(0, math.min(now - last, tonumber(ARGV[4])))
redis.call('SET', key('accounted'), now)
redis.call('HINCRBY', counters, 'slot_ms:offered', passed * tonumber(ARGV[2]))
redis.call('HINCRBY', counters, 'slot_ms:busy', passed * tonumber(ARGV[3]))
for i = 5, #ARGV, 2 do
  local tenant, word = ARGV[i], ARGV[i + 1]
  if word ~= 'forgotten' then
    local record = redis.call('HGET', name, tenant)
    if not record or #record ~= 33 then record = struct.pack('>I8I8I8I8', 0, 0, 0, now) end
    redis.call('HSET', name, tenant, string.sub(record, 1, 32) .. (word == 'shown' and '\1' or '\0'))
  elseif redis.call('HEXISTS', key('live'), tenant) == 0 then
    redis.call('HDEL', name, tenant)
  end
end
return passed
