#!lua
-- Pauses a queue (nothing of it is dispatched) or resumes it; who waited there has no arrears.
-- KEYS[1] prefix of the namespace
-- ARGV[1] queue
-- ARGV[2] 1 to pause, 0 to resume
-- ARGV[3] most tenants whose start is moved in this call
-- RETURNS 1 when the queue was in the other state before, else 0; -1 to be called again
--#include keys counts context heads clock changed wake
local queue, most = ARGV[1], tonumber(ARGV[3])
note_change('pauses')
if ARGV[2] == '1' then
  local changed = redis.call('SADD', key('paused_queues'), queue)
  wake('config')
  return changed
end
if redis.call('SISMEMBER', key('paused_queues'), queue) == 0 then return 0 end
if load_context().fair then
  -- other queues of the group may have moved V: a finish before it would be credit saved up
  local group = group_of(queue)
  local V, starts = string.format('%.17g', virtual_time(group)), queue_key('starts', group)
  local peers = peers_of(queue)
  local late = redis.call('ZRANGE', queue_key('heads', queue), '-inf', '(' .. V, 'BYSCORE',
    'LIMIT', 0, most)
  for _, head in ipairs(late) do
    local tenant = string.sub(head, 13)
    redis.call('HSET', starts, tenant, V)
    redis.call('ZREM', queue_key('heads', queue), head)
    for _, peer in ipairs(peers) do
      local first = redis.call('ZRANGE', tenant_key('pending', peer, tenant), 0, 0, 'WITHSCORES')
      local placed = first[1] and (peer == queue or redis.call('ZSCORE', queue_key('heads', peer),
        string.sub(first[1], 1, 12) .. tenant))
      if placed then place(peer, tenant, first[1], first[2]) end
    end
  end
  write_back()
  if #late == most then return -1 end
end
redis.call('SREM', key('paused_queues'), queue)
wake('config')
return 1
