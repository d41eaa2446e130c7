-- Restarts a fair group's virtual time at zero long before doubles lose single units of cost.
-- Its heads are set aside and placed again at the new V, as after a change of the policy; every
-- waiting tenant loses less than one round. Returns whether it did.
local function rebase(group, peers)
  if virtual_time(group) < 2 ^ 50 then return false end
  for _, queue in ipairs(peers) do
    if redis.call('EXISTS', queue_key('stale', queue)) == 1 then return false end
  end
  for _, queue in ipairs(peers) do
    if redis.call('EXISTS', queue_key('heads', queue)) == 1 then
      redis.call('RENAME', queue_key('heads', queue), queue_key('stale', queue))
    end
  end
  redis.call('UNLINK', queue_key('starts', group))
  redis.call('HSET', key('virtual'), group, 0)
  context.virtual[group] = 0
  note_change('virtual')
  wake('config')
  return true
end
