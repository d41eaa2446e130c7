-- Unpacks a run record; nil when there is none, it is no record or the token is not current.
local function unpack_run(raw, epoch)
  if not raw or #raw <= 70 then return nil end
  local held, generation, rank, length = struct.unpack('>I8I4dH', raw)
  if epoch and held ~= epoch then return nil end
  return {
    epoch = held,
    generation = generation,
    rank = rank,
    tenant = string.sub(raw, 23, 22 + length),
    record = string.sub(raw, 23 + length),
  }
end

local function current_run(queue, entry, epoch)
  return unpack_run(redis.call('HGET', queue_key('running', queue), entry), epoch)
end

-- Ends a delivery in every structure but the payload: run record, exec entry, slot, tenant.
local function close_run(queue, entry, run)
  local stream = queue_key('exec', queue)
  redis.call('HDEL', queue_key('running', queue), entry)
  redis.call('XACK', stream, 'workers', entry)
  redis.call('XDEL', stream, entry)
  tally('running', run.tenant, -1)
  count('dispatched', queue, -1)
end
