-- What is in flight, and what may be added to it. The greatest capacity that a group of queues was
-- ever given is kept, so that the books can be held against it.
local function in_flight(queue)
  return tonumber(redis.call('HGET', key('counters'), 'dispatched:' .. queue) or '0')
end

-- What the cap on the whole namespace leaves.
local function room_under_cap()
  if not context.max_running then return math.huge end
  local total = 0
  for _, queue in ipairs(redis.call('SMEMBERS', key('queues'))) do
    total = total + in_flight(queue)
  end
  return context.max_running - total
end

-- `flying` has the queues that were given `capacity`; what the others of their group have in flight
-- takes room beside them.
local function note_capacity(queue, capacity, flying)
  for _, peer in ipairs(context.groups and peers_of(queue) or {}) do
    if not flying[peer] then capacity = capacity + in_flight(peer) end
  end
  keep_greatest('capacity', group_of(queue), capacity, math.huge)
end
