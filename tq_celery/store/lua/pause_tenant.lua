#!lua
-- Pauses a tenant (its tasks wait, keeping their ranks) or resumes it at V.
-- KEYS[1] prefix of the namespace
-- ARGV[1] tenant
-- ARGV[2] 1 to pause, 0 to resume
-- RETURNS 1 when the tenant was in the other state before, else 0
--#include keys counts context heads clock changed wake
local tenant, changed = ARGV[1], 0
if ARGV[2] == '1' then
  changed = redis.call('SADD', key('paused_tenants'), tenant)
  load_context()
  for _, queue in ipairs(redis.call('SMEMBERS', key('queues'))) do
    local first = redis.call('ZRANGE', tenant_key('pending', queue, tenant), 0, 0, 'WITHSCORES')
    if first[1] then
      unplace(queue, tenant, first[1])
      place(queue, tenant, first[1], first[2])
    end
  end
else
  changed = redis.call('SREM', key('paused_tenants'), tenant)
  load_context()
  release(tenant)
end
write_back()
note_change('pauses')
wake('config')
return changed
