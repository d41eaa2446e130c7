-- The race between the queues of one worker set. `queues` and `peers` (the queues that share a
-- tenant's start) are filled by the dispatch that includes this.
local queues, peers = {}, {}

-- The queue with the best head; equal scores fall to the earlier arrival.
local function best_queue(want)
  local best, found
  for _, queue in ipairs(queues) do
    local head = best_head(queue, want)
    if head and (not found or before(head[1], head[2], found)) then best, found = queue, head end
  end
  return best, found
end

-- Moves a head that may be among the taken ones, set back, or still in its set; false when gated.
local function move_head(queue, score, member)
  local heads = taken[queue]
  if heads then
    for i = heads.first, heads.last do
      if heads[i][2] == member then
        for j = i, heads.last do heads[j] = heads[j + 1] end
        heads.last = heads.last - 1
        return add_head(queue, score, member)
      end
    end
    if set_back[queue][member] then
      set_back[queue][member] = score
      return
    end
  end
  redis.call('ZADD', queue_key('heads', queue), 'XX', string.format('%.17g', score), member)
end

-- Under a fair policy the tenant's other queues share the start that this dispatch moved.
local function rescore(queue, tenant, finish)
  local waits = false
  for _, peer in ipairs(peers) do
    if peer ~= queue then
      local first = redis.call('ZRANGE', tenant_key('pending', peer, tenant), 0, 0)[1]
      if first then
        waits = true
        move_head(peer, finish + charge(tenant, first), string.sub(first, 1, 12) .. tenant)
      end
    end
  end
  return waits
end
