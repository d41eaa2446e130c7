#!lua flags=allow-oom
-- Takes tasks that no worker has out of every structure, by exact member; each is settled here.
-- KEYS[1] prefix of the namespace
-- ARGV[1] outcome: revoked (an obituary tells who waits) or drained (kept in draining)
-- ARGV[2] reason
-- ARGV[3] length of the results stream, 0 untrimmed
-- ARGV[4] done memory in ms
-- ARGV[5] most keys in the done memory
-- ARGV[6...] where (ingress, delayed, pending or exec), queue, tenant, member of each
-- RETURNS one 1 (removed) or 0 (not there, nothing changed) per task
--#include keys clock ids counts context heads run served settle outside pull wake
load_context()
local now, outcome, reason = now_ms(), ARGV[1], ARGV[2]
local limits = { tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]) }
trim_done(limits, now)
-- a purge may settle millions, and no worker may be there to cut the stream
if limits[1] > 0 then capped.results = limits[1] end
local replies, freed, any = {}, {}, false

-- The leader may have read what leaves ingress here: `admit` looks again at entries up to this one.
local holes = redis.call('GET', key('holes'))
local function later(entry, other)
  if not other then return entry end
  local ms, seq = string.match(entry, '^(%d+)-(%d+)$')
  local other_ms, other_seq = string.match(other, '^(%d+)-(%d+)$')
  if ms ~= other_ms then return tonumber(ms) > tonumber(other_ms) and entry or other end
  return tonumber(seq) > tonumber(other_seq) and entry or other
end

-- Returns the task's record, the epoch of its delivery and the ms at which it is due.
local function take(where, queue, tenant, member)
  if where == 'ingress' then
    local found = redis.call('XRANGE', key('ingress'), member, member)[1]
    if not found then return nil end
    redis.call('XDEL', key('ingress'), member)
    holes = later(member, holes)
    count('submitted', queue, -1)
    return string.sub(found[2][2], 6 + #queue + #tenant), 0, 0
  elseif where == 'delayed' then
    local due = redis.call('ZSCORE', key('delayed'), member)
    if not due then return nil end
    redis.call('ZREM', key('delayed'), member)
    count('delayed', queue, -1)
    return string.sub(member, 6 + #queue + #tenant), 0, tonumber(due)
  elseif where == 'exec' then
    local run = unread_run(queue, member)
    if not run then return nil end
    close_run(queue, member, run)
    redis.call('HDEL', queue_key('superseded', queue), member)
    freed[tenant] = true
    return run.record, run.epoch, 0
  end
  return pull(queue, tenant, member), 0, 0
end

for i = 6, #ARGV, 4 do
  local where, queue, tenant = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local record, epoch, due = take(where, queue, tenant, ARGV[i + 3])
  if record then
    any = true
    local run = { tenant = tenant, record = record, epoch = epoch }
    local entry, task_key = where == 'exec' and ARGV[i + 3] or nil, string.sub(record, 49)
    local digest = string.sub(redis.call('HGET', key('payload'), task_key) or '', 1, 16)
    if outcome == 'drained' then
      settle(queue, entry, run, { outcome = outcome, digest = digest, worker = '', started = 0,
        finished = now }, limits)
      redis.call('HSET', key('draining'), task_key,
        struct.pack('>I8BHH', due, 0, #queue, #tenant) .. queue .. tenant .. record)
    else
      end_outside(queue, entry, run, outcome, digest, reason, now)
    end
  end
  replies[#replies + 1] = record and 1 or 0
end
if not any then return replies end
if holes then redis.call('SET', key('holes'), holes, 'PX', 3600000) end
renew_heads()
local woken = next(freed) and redis.call('DEL', key('starved')) == 1
if context.caps then
  for tenant in pairs(freed) do woken = release(tenant) or woken end
end
write_back()
if woken then wake('credit') end
return replies
