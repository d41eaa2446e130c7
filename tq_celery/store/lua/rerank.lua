#!lua
-- Gives some of a tenant's tasks ranks of the current generation and lets them compete again.
-- KEYS[1] prefix of the namespace
-- ARGV[1] epoch
-- ARGV[2] generation the ranks belong to
-- ARGV[3] queue
-- ARGV[4] tenant
-- ARGV[5...] score, member pairs
-- RETURNS tasks of the tenant that are still outdated, -1 when the generation is not current; error TQFENCED
--#include keys counts fence context heads aside deliver
local epoch = tonumber(ARGV[1])
local refusal = fenced(epoch)
if refusal then return refusal end
if load_context().generation ~= tonumber(ARGV[2]) then return -1 end
local queue, tenant = ARGV[3], ARGV[4]
local outdated = tenant_key('outdated', queue, tenant)
local stale, rerank = queue_key('stale', queue), queue_key('rerank', queue)

-- The first call for a tenant sets its tasks aside; they come back one batch at a time.
local front = redis.call('ZRANGE', stale, 0, 0)[1]
local listed = (front and string.sub(front, 13) == tenant)
  or redis.call('SISMEMBER', rerank, tenant) == 1
if not listed then return 0 end
set_aside(queue, tenant)
local list = {}
for i = 5, #ARGV, 2 do
  if redis.call('ZREM', outdated, ARGV[i + 1]) == 1 then
    list[#list + 1] = ARGV[i]
    list[#list + 1] = ARGV[i + 1]
  end
end
if context.direct then
  local packed_epoch = struct.pack('>I8', epoch)
  for i = 1, #list, 2 do
    deliver(queue, tenant, tonumber(list[i]), list[i + 1], packed_epoch)
  end
  count('pending', queue, -#list / 2)
  write_deliveries()
elseif list[1] then
  pend(queue, tenant, list)
end
write_back()
local left = redis.call('ZCARD', outdated)
if left == 0 then
  if front and string.sub(front, 13) == tenant then redis.call('ZREM', stale, front) end
  redis.call('SREM', rerank, tenant)
end
return left
