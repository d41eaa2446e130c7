#!lua
-- Records which queues share workers; under a fair policy the changed groups restart at V.
-- KEYS[1] prefix of the namespace
-- ARGV[1] epoch
-- ARGV[2...] queue, group pairs
-- RETURNS number of queues that changed, -1 while a re-ranking is unfinished; error TQFENCED
--#include keys fence context clock changed
local refusal = fenced(tonumber(ARGV[1]))
if refusal then return refusal end
load_context()
local changed, affected = {}, {}
for i = 2, #ARGV, 2 do
  local old = group_of(ARGV[i])
  if old ~= ARGV[i + 1] then
    changed[#changed + 1] = { ARGV[i], old, ARGV[i + 1] }
    affected[old], affected[ARGV[i + 1]] = true, true
  end
end
if not changed[1] then return 0 end
local queues = redis.call('SMEMBERS', key('queues'))
for _, queue in ipairs(queues) do
  if redis.call('EXISTS', queue_key('stale', queue)) == 1 then return -1 end
end
local touched, size = {}, {}
for _, queue in ipairs(queues) do touched[queue] = affected[group_of(queue)] end
for i = 3, #ARGV, 2 do size[ARGV[i]] = (size[ARGV[i]] or 0) + 1 end
for _, each in ipairs(changed) do
  local V = math.max(virtual_time(each[2]), virtual_time(each[3]))
  context.virtual[each[3]] = V
  redis.call('HSET', key('virtual'), each[3], string.format('%.17g', V))
  touched[each[1]] = true
end
for i = 2, #ARGV, 2 do
  -- a queue alone in the group of its own name needs no field
  local alone = ARGV[i] == ARGV[i + 1] and size[ARGV[i + 1]] == 1
  if alone then redis.call('HDEL', key('groups'), ARGV[i])
  else redis.call('HSET', key('groups'), ARGV[i], ARGV[i + 1]) end
end
for group in pairs(affected) do redis.call('UNLINK', queue_key('starts', group)) end
if context.fair then
  for queue, hit in pairs(touched) do
    if hit and redis.call('EXISTS', queue_key('heads', queue)) == 1 then
      redis.call('RENAME', queue_key('heads', queue), queue_key('stale', queue))
    end
  end
end
note_change('groups')
return #changed
