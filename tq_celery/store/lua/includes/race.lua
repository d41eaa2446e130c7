-- The race between the queues of one worker set. `queues` and `peers` (the queues that share a
-- tenant's start) are filled by the dispatch that includes this.
local queues, peers = {}, {}

-- The queue with the best head; equal scores fall to the earlier arrival.
local function best_queue(want)
  if not queues[2] then
    if queues[1] then return queues[1], best_head(queues[1], want) end
    return nil
  end
  local best, least, first, text
  for _, queue in ipairs(queues) do
    local score, member, written = best_head(queue, want)
    if score and (not best or score < least or (score == least and member < first)) then
      best, least, first, text = queue, score, member, written
    end
  end
  return best, least, first, text
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
