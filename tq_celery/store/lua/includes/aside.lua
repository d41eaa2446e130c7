-- Sets a tenant's waiting tasks aside, out of the competition, until the leader has ranked them anew.
-- Once some are set aside, what waits in `pending` carries current ranks already.
local function set_aside(queue, tenant)
  local pending = tenant_key('pending', queue, tenant)
  local outdated = tenant_key('outdated', queue, tenant)
  if redis.call('EXISTS', outdated) == 1 then return end
  local first = redis.call('ZRANGE', pending, 0, 0)[1]
  if not first then return end
  unplace(queue, tenant, first)
  redis.call('SREM', queue_key('gated', queue), tenant)
  redis.call('RENAME', pending, outdated)
end
