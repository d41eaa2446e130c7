-- Takes a delivery away from its worker: back to pending at its old rank and already paid, to
-- delayed, to the dead letters when the budget is spent, or settled when a retry superseded it.
-- `policy` = {word, budget, counted, delay ms, reason, worker}, its word `reclaimed` or `returned`;
-- returns the word for what happened.
local function restore(queue, entry, run, policy, limits, dead_maxlen, now)
  local superseded = redis.call('HGET', queue_key('superseded', queue), entry)
  close_run(queue, entry, run)
  count(policy.word, queue, 1)
  if superseded then
    redis.call('HDEL', queue_key('superseded', queue), entry)
    local task_key = string.sub(run.record, 49)
    local stored = redis.call('HGET', key('payload'), task_key) or ''
    settle(queue, entry, run, { outcome = superseded, worker = policy.worker,
      digest = string.sub(stored, 1, 16), started = 0, finished = now }, limits)
    redis.call('HDEL', key('payload'), task_key)
    return 'settled'
  end
  local record = run.record
  local attempts = struct.unpack('>H', record, 46) + (policy.counted and 1 or 0)
  local spent = policy.counted and attempts >= policy.budget
  record = string.sub(record, 1, 45) .. struct.pack('>H', math.min(attempts, 65535))
    .. (spent and string.sub(record, 48, 48) or '\1') .. string.sub(record, 49)
  run.record = record
  if spent then
    bury_run(queue, entry, run, { reason = policy.reason, worker = policy.worker, started = 0,
      finished = now }, limits, dead_maxlen, now)
    return 'buried'
  end
  if policy.delay > 0 then
    redis.call('ZADD', key('delayed'), now + policy.delay,
      struct.pack('>BHH', 255 - string.byte(record, 21), #queue, #run.tenant)
        .. queue .. run.tenant .. record)
    count('delayed', queue, 1)
    return 'delayed'
  end
  if run.generation ~= context.generation then
    -- ranked by an earlier policy: the leader ranks it anew, and with it, during a switch, whatever
    -- waits for the tenant; else those tasks would count as ranked already
    if redis.call('EXISTS', queue_key('stale', queue), queue_key('rerank', queue)) > 0 then
      set_aside(queue, run.tenant)
    end
    redis.call('ZADD', tenant_key('outdated', queue, run.tenant), run.rank, record)
    redis.call('SADD', queue_key('rerank', queue), run.tenant)
  else
    pend(queue, run.tenant, { string.format('%.17g', run.rank), record })
  end
  count('pending', queue, 1)
  return 'pending'
end
