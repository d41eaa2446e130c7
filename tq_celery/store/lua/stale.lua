#!lua flags=no-writes
-- Reads tenants whose tasks carry ranks of an older generation, with some of their members.
-- KEYS[1] prefix of the namespace
-- ARGV[1] most members to return
-- RETURNS {queue, tenant, {member, ...}} for each tenant
--#include keys
local left, found = tonumber(ARGV[1]), {}
local function look(queue, tenant)
  local name = tenant_key('outdated', queue, tenant)
  if redis.call('EXISTS', name) == 0 then name = tenant_key('pending', queue, tenant) end
  local members = redis.call('ZRANGE', name, 0, left - 1)
  left = left - math.max(1, #members)
  found[#found + 1] = { queue, tenant, members }
end
for _, queue in ipairs(redis.call('SMEMBERS', key('queues'))) do
  if left > 0 then
    for _, head in ipairs(redis.call('ZRANGE', queue_key('stale', queue), 0, left - 1)) do
      if left > 0 then look(queue, string.sub(head, 13)) end
    end
  end
  if left > 0 then
    for _, tenant in ipairs(redis.call('SRANDMEMBER', queue_key('rerank', queue), left)) do
      if left > 0 then look(queue, tenant) end
    end
  end
end
return found
