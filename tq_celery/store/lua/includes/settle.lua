-- Writes a task's one outcome: result record, done memory, counters. The caller has closed the run.
-- `remember` is false when the caller writes a batch to the done memory itself.
-- `limits` = {results_maxlen, done_memory ms, done_max}; 0 as a length means never trimmed.
local function trim_done(limits, now)
  local since = tonumber(redis.call('GET', key('done:since')) or '')
  if not since then
    redis.call('SET', key('done:since'), now)
  elseif now - since > limits[2] or redis.call('HLEN', key('done:new')) * 2 >= limits[3] then
    redis.call('UNLINK', key('done:old'))
    if redis.call('EXISTS', key('done:new')) == 1 then
      redis.call('RENAME', key('done:new'), key('done:old'))
    end
    redis.call('SET', key('done:since'), now)
  end
end

-- `run` needs tenant, record and epoch; `how` has outcome, worker, digest, started, finished.
local function settle(queue, entry, run, how, limits, remember)
  local record = run.record
  local task_key = string.sub(record, 49)
  local arrived, _, cost, priority, deadline, submitted, admitted, attempts, paid =
    struct.unpack('>I8I4dBI8I8I8HB', record)
  local nesting, retries, generation, id = string.match(task_key, '^(%d+)%.(%d+)%.(%d+)%.(.*)$')
  local dispatched = entry and string.match(entry, '^%d+') or 0
  note_end(queue, run.tenant, how, deadline, entry and dispatched - arrived)
  local fields = {
    'id', id or task_key, 'nesting', nesting or 0, 'retries', retries or 0,
    'generation', generation or 0, 'tenant', run.tenant, 'queue', queue, 'priority', priority,
    'cost', cost, 'deadline', deadline, 'submitted', submitted, 'arrived', arrived,
    'admitted', admitted, 'dispatched', dispatched, 'started', how.started, 'finished', how.finished,
    'worker', how.worker, 'epoch', run.epoch, 'attempts', attempts, 'outcome', how.outcome,
    'entry', entry or '', 'redelivered', paid,
  }
  append('results', limits[1], fields)
  if remember ~= false then redis.call('HSET', key('done:new'), task_key, how.digest) end
  tally('live', run.tenant, -1)
  count(how.outcome, queue, 1)
  if id then forget_id(id, task_key) end
  return task_key
end
