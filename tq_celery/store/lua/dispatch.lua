#!lua
-- Moves the best heads of some queues to their exec streams, as far as credit allows.
-- KEYS[1] prefix of the namespace
-- ARGV[1] epoch
-- ARGV[2] capacity: most deliveries in flight on these queues together
-- ARGV[3] most tasks in this call
-- ARGV[4...] queues, consumed by the same workers
-- RETURNS {moved, 1 when work is left without credit, in flight per queue ...}; error TQFENCED
--#include keys counts fence wake context heads clock changed rebase taken race deliver capacity
local epoch = tonumber(ARGV[1])
local refusal = fenced(epoch)
if refusal then return refusal end
load_context()

local flying, used = {}, 0
for i = 4, #ARGV do
  local queue = ARGV[i]
  flying[queue] = in_flight(queue)
  used = used + flying[queue]
  if redis.call('SISMEMBER', key('paused_queues'), queue) == 0 then queues[#queues + 1] = queue end
end
local capacity = tonumber(ARGV[2])
local credit = math.min(capacity - used, room_under_cap())
local want = math.min(credit, tonumber(ARGV[3]))

local waiting = {}
for _, queue in ipairs(queues) do waiting[queue] = tenant_key('pending', queue, '') end
local group = queues[1] and group_of(queues[1])
local V = group and context.fair and virtual_time(group)
local starts = group and queue_key('starts', group)
if V then peers = peers_of(queues[1]) end
if V and rebase(group, peers) then V = 0 end
for _, queue in ipairs(queues) do enter_race(queue) end
local began, ended, moved, aside = {}, {}, 0, 0
local packed_epoch = struct.pack('>I8', epoch)

-- `aside` bounds the tenants at their cap that one call sets aside
while moved < want and aside < 500 do
  local queue, finish, head, finish_text = best_queue(want - moved)
  if not head then break end
  drop_head(queue)
  local tenant = string.sub(head, 13)
  if context.caps and not eligible(tenant) then
    redis.call('SADD', queue_key('gated', queue), tenant)
    ended[tenant], began[tenant] = true, nil
    aside = aside + 1
  else
    local pending = waiting[queue] .. tenant
    local task = redis.call('ZPOPMIN', pending)
    if task[1] then
      deliver(queue, tenant, tonumber(task[2]), task[1], packed_epoch)
      moved = moved + 1
    end
    local following = redis.call('ZRANGE', pending, 0, 0, 'WITHSCORES')
    local first, text = following[1], following[2]
    local score = first and tonumber(text)
    if context.fair then
      if finish > V then V = finish end
      if (#peers > 1 and rescore(queue, tenant, finish)) or first then
        began[tenant], ended[tenant] = finish_text, nil
      else
        ended[tenant], began[tenant] = true, nil
      end
      if first then
        score = finish + charge(tenant, first)
        text = string.format('%.17g', score)
      end
    end
    if first then add_head(queue, score, text, string.sub(first, 1, 12) .. tenant) end
  end
end
for _, queue in ipairs(queues) do write_race(queue) end

if V then
  if moved > 0 then redis.call('HSET', key('virtual'), group, string.format('%.17g', V)) end
  local changes = {}
  for tenant, start in pairs(began) do
    changes[#changes + 1] = tenant
    changes[#changes + 1] = start
  end
  if changes[1] then redis.call('HSET', starts, unpack(changes)) end
  local over = {}
  for tenant in pairs(ended) do over[#over + 1] = tenant end
  if over[1] then redis.call('HDEL', starts, unpack(over)) end
end
for queue, batch in pairs(handed) do
  count('pending', queue, -batch.n / 2)
  flying[queue] = flying[queue] + batch.n / 2
end
if moved > 0 then note_capacity(queues[1], capacity, flying) end
write_deliveries()
write_back()
if aside == 500 then wake('credit') end

local starved = 0
if moved >= credit then
  for _, queue in ipairs(queues) do
    if redis.call('EXISTS', queue_key('heads', queue)) == 1 then starved = 1 end
  end
  if starved == 1 then redis.call('SET', key('starved'), 1) end
end
local reply = { moved, starved }
for i = 4, #ARGV do reply[#reply + 1] = flying[ARGV[i]] end
return reply
