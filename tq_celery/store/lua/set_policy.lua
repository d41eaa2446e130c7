#!lua
-- Starts a new generation of ranks: every head of the old one is set aside to be ranked anew.
-- KEYS[1] prefix of the namespace
-- ARGV[1] policy
-- ARGV[2] what decides between tenants: rank, fair or none
-- ARGV[3] order within a tenant: arrival, priority or deadline
-- ARGV[4] seconds of waiting that weigh as one level of priority, '' = priority alone decides
-- RETURNS the new generation, 0 when an earlier switch is unfinished
--#include keys clock changed wake
local queues = redis.call('SMEMBERS', key('queues'))
for _, queue in ipairs(queues) do
  if redis.call('EXISTS', queue_key('stale', queue), queue_key('rerank', queue)) > 0 then
    return 0
  end
end
for _, queue in ipairs(queues) do
  if redis.call('EXISTS', queue_key('heads', queue)) == 1 then
    redis.call('RENAME', queue_key('heads', queue), queue_key('stale', queue))
  end
  if redis.call('EXISTS', queue_key('gated', queue)) == 1 then
    redis.call('RENAME', queue_key('gated', queue), queue_key('rerank', queue))
  end
  redis.call('UNLINK', queue_key('starts', redis.call('HGET', key('groups'), queue) or queue))
end
redis.call('HSET', key('config'), 'policy', ARGV[1], 'between', ARGV[2], 'order_within', ARGV[3],
  'ageing', ARGV[4])
redis.call('HSETNX', key('config'), 'generation', 1)
local generation = redis.call('HINCRBY', key('config'), 'generation', 1)
note_change('policy')
wake('config')
return generation
