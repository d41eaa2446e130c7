-- most ms between two that come back one at a time
local APART = 1000

-- Takes back up to `batch` deliveries that a consumer has read and not settled. One of those that
-- are lost again may be what ends every worker that has it: they come back one at a time, evenly
-- over `policy.spread` ms, so that the others are not beside it once more.
local function recall(queue, consumer, batch, policy, limits, dead_maxlen, now)
  local stream = queue_key('exec', queue)
  local held = redis.pcall('XPENDING', stream, 'workers', '-', '+', batch, consumer)
  if held.err then return 0 end
  local apart = policy.counted and math.min(APART, math.floor(policy.spread / math.max(1, #held)))
  for i, each in ipairs(held) do
    local entry = each[1]
    local run = current_run(queue, entry, nil)
    if run then
      local again = policy.counted and struct.unpack('>H', run.record, 46) > 0
      policy.delay = again and apart * (i - 1) or 0
      local went = restore(queue, entry, run, policy, limits, dead_maxlen, now)
      policy.delayed = policy.delayed or went == 'delayed'
      if context.caps then release(run.tenant) end
    else
      -- nobody dispatched it: what it is, nobody can tell
      bury_raw(stream, queue, entry, 'no run record', now)
      redis.call('XACK', stream, 'workers', entry)
    end
  end
  return #held
end

-- Puts a consumer's unwritten obituaries back for the next worker.
local function recall_obituaries(queue, consumer, batch)
  local stream = queue_key('obituary', queue)
  local held = redis.pcall('XPENDING', stream, 'workers', '-', '+', batch, consumer)
  if held.err then return 0 end
  for _, each in ipairs(held) do
    local found = redis.call('XRANGE', stream, each[1], each[1])[1]
    if found then redis.call('XADD', stream, '*', unpack(found[2])) end
    redis.call('XACK', stream, 'workers', each[1])
    redis.call('XDEL', stream, each[1])
  end
  return #held
end

-- Recalls everything of one worker and forgets it once it holds nothing; returns what was taken.
local function recall_worker(worker, batch, policy, limits, dead_maxlen, now)
  local taken = 0
  local queues = redis.call('SMEMBERS', key('queues'))
  for _, queue in ipairs(queues) do
    if taken < batch then
      taken = taken + recall(queue, worker, batch - taken, policy, limits, dead_maxlen, now)
      taken = taken + recall_obituaries(queue, worker, batch)
    end
  end
  if taken >= batch then return taken end
  for _, queue in ipairs(queues) do
    redis.pcall('XGROUP', 'DELCONSUMER', queue_key('exec', queue), 'workers', worker)
    redis.pcall('XGROUP', 'DELCONSUMER', queue_key('obituary', queue), 'workers', worker)
  end
  redis.call('ZREM', key('workers'), worker)
  redis.call('HDEL', key('announcements'), worker)
  return taken
end
