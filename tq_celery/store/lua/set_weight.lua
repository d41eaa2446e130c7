#!lua
-- Sets a tenant's weight and re-scores its waiting heads at once; its start is kept.
-- KEYS[1] prefix of the namespace
-- ARGV[1] tenant
-- ARGV[2] weight
-- RETURNS number of heads that were re-scored
--#include keys counts context heads clock changed wake
local tenant, rescored = ARGV[1], 0
redis.call('HSET', key('weights'), tenant, ARGV[2])
load_context()
if context.fair then
  for _, queue in ipairs(redis.call('SMEMBERS', key('queues'))) do
    local first = redis.call('ZRANGE', tenant_key('pending', queue, tenant), 0, 0, 'WITHSCORES')
    if first[1] and redis.call('ZSCORE', queue_key('heads', queue),
        string.sub(first[1], 1, 12) .. tenant) then
      place(queue, tenant, first[1], first[2])
      rescored = rescored + 1
    end
  end
end
write_back()
note_change('weights')
wake('config')
return rescored
