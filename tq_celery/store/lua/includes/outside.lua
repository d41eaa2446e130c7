-- Ends a task outside a worker: its one result record, and an obituary for whoever waits for it. The
-- payload stays until that has been written. `run` = {tenant, record, epoch}; `entry` is nil unless
-- it was dispatched. It caps no stream: that is the caller's, or the next settlement's.
local function end_outside(queue, entry, run, outcome, digest, reason, now)
  local task_key = settle(queue, entry, run, { outcome = outcome, digest = digest, worker = '',
    started = 0, finished = now }, { 0 })
  redis.call('XADD', queue_key('obituary', queue), '*', 'k', task_key, 'o', outcome, 'r', reason)
end
