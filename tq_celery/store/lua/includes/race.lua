-- The race between the queues of one worker set: `heads`, `tops` (best head per queue) and `peers`
-- (the queues that share a tenant's start) are filled by the dispatch that includes this.
local heads, tops, queues, peers = {}, {}, {}, {}
local function look(queue)
  local top = redis.call('ZRANGE', heads[queue], 0, 0, 'WITHSCORES')
  tops[queue] = top[1] and { top[1], tonumber(top[2]) } or nil
end
-- The queue with the best head; equal scores fall to the earlier arrival.
local function best_queue()
  if #queues == 1 then return queues[1] end
  local best, member, score
  for _, queue in ipairs(queues) do
    local top = tops[queue]
    if top and (not best or top[2] < score or (top[2] == score and top[1] < member)) then
      best, member, score = queue, top[1], top[2]
    end
  end
  return best
end

-- Under a fair policy the tenant's other queues share the start that this dispatch moved.
local function rescore(queue, tenant, finish)
  local waits = false
  for _, peer in ipairs(peers) do
    if peer ~= queue then
      local first = redis.call('ZRANGE', tenant_key('pending', peer, tenant), 0, 0)
      if first[1] then
        waits = true
        redis.call('ZADD', queue_key('heads', peer), 'XX',
          string.format('%.17g', finish + charge(tenant, first[1])),
          string.sub(first[1], 1, 12) .. tenant)
        if tops[peer] then look(peer) end
      end
    end
  end
  return waits
end
