-- Hands tasks to the workers of a queue: one exec entry and its run record each.
-- Run record: epoch (8), generation (4), rank (8), tenant length (2), tenant, record.
-- Run records are gathered and written together by `write_deliveries`.
local handed = {}
local function deliver(queue, tenant, rank, record, packed_epoch)
  local batch = handed[queue]
  if not batch then
    batch = { stream = queue_key('exec', queue), n = 0 }
    handed[queue] = batch
  end
  local n = batch.n
  batch[n + 1] = redis.call('XADD', batch.stream, '*', 'd',
    packed_epoch .. string.sub(record, 46, 47) .. string.sub(record, 49))
  batch[n + 2] = packed_epoch .. struct.pack('>I4dH', context.generation, rank, #tenant)
    .. tenant .. record
  batch.n = n + 2
  local running = tallies.running
  running[tenant] = (running[tenant] or 0) + 1
end

local function write_deliveries()
  for queue, batch in pairs(handed) do
    redis.call('HSET', queue_key('running', queue), unpack(batch, 1, batch.n))
    count('dispatched', queue, batch.n / 2)
  end
end
