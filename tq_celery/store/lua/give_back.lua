#!lua flags=allow-oom
-- Returns deliveries unsettled: to pending at their rank, to delayed, or buried over the budget.
-- KEYS[1] prefix of the namespace
-- ARGV[1] budget of lost deliveries
-- ARGV[2] length of the results stream, 0 untrimmed
-- ARGV[3] done memory in ms
-- ARGV[4] most keys in the done memory
-- ARGV[5] length of the dead-letter stream, 0 untrimmed
-- ARGV[6...] queue, entry, epoch, counted (1 or 0), delay ms of each delivery
-- RETURNS one 1 (returned) or 0 (stale token, nothing changed) per delivery
--#include keys clock place ids counts context heads run served settle bury aside restore wake
load_context()
local now = now_ms()
local limits = { tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]) }
local replies, tenants, any, delayed = {}, {}, false, false
for i = 6, #ARGV, 5 do
  local queue, entry = ARGV[i], ARGV[i + 1]
  local run = current_run(queue, entry, tonumber(ARGV[i + 2]))
  if run then
    any = true
    tenants[run.tenant] = context.caps or nil
    local went = restore(queue, entry, run, { word = 'returned', budget = tonumber(ARGV[1]),
      counted = ARGV[i + 3] == '1', delay = tonumber(ARGV[i + 4]), worker = '',
      reason = 'delivery budget spent' }, limits, tonumber(ARGV[5]), now)
    delayed = delayed or went == 'delayed'
  end
  replies[#replies + 1] = run and 1 or 0
end
for tenant in pairs(tenants) do release(tenant) end
write_back()
if any then
  redis.call('DEL', key('starved'))
  wake('returned')
  if delayed then wake('delayed') end
end
return replies
