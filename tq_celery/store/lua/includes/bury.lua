-- Moves a task to the dead-letter stream with everything needed to requeue it, and leaves an
-- obituary for the next worker of its queue. The payload stays until that has been written.
local function bury_run(queue, entry, run, how, limits, dead_maxlen, now)
  local task_key = string.sub(run.record, 49)
  local stored = redis.call('HGET', key('payload'), task_key) or ''
  how.outcome, how.digest = 'dead', string.sub(stored, 1, 16)
  local fields = {
    'key', task_key, 'queue', queue, 'tenant', run.tenant, 'reason', how.reason,
    'attempts', struct.unpack('>H', run.record, 46),
    'token', string.format('%.0f', run.epoch) .. '/' .. entry .. '/' .. queue,
    'record', run.record, 'digest', how.digest, 
    'payload', string.sub(stored, 17, length_of_message(stored)),
    'outcome', 'dead', 'at', now,
  }
  append('dead', dead_maxlen, fields)
  settle(queue, entry, run, how, limits)
  redis.call('XADD', queue_key('obituary', queue), '*', 'k', task_key, 'o', 'dead', 'r', how.reason)
end
