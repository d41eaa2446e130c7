-- Hands a task to the workers of a queue: one exec entry and its run record.
-- Run record: epoch (8), generation (4), rank (8), tenant length (2), tenant, record.
local function deliver(queue, tenant, rank, record, epoch)
  local packed = struct.pack('>I8', epoch)
  local entry = redis.call('XADD', queue_key('exec', queue), '*', 'd',
    packed .. string.sub(record, 46, 47) .. string.sub(record, 49))
  redis.call('HSET', queue_key('running', queue), entry, packed
    .. struct.pack('>I4dH', context.generation, rank, #tenant) .. tenant .. record)
  tally('running', tenant, 1)
  return entry
end
