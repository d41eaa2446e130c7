#!lua
-- Sends a dead letter through the fair queue again, as the next requeue generation of its task.
-- KEYS[1] prefix of the namespace
-- ARGV[1] entry of the dead-letter stream
-- RETURNS 'requeued', 'repeat' (that generation was accepted before), 'missing' or 'unreadable'
--#include keys clock place ids
local found = redis.call('XRANGE', key('dead'), ARGV[1], ARGV[1])[1]
if not found then return 'missing' end
local letter = {}
for i = 1, #found[2], 2 do letter[found[2][i]] = found[2][i + 1] end
local nesting, retries, generation, id =
  string.match(letter.key or '', '^(%d+)%.(%d+)%.(%d+)%.(.*)$')
if not id then return 'unreadable' end
local task_key = nesting .. '.' .. retries .. '.' .. (generation + 1) .. '.' .. id
local now = now_ms()
local stored = with_place(letter.digest .. letter.payload, letter.queue, letter.tenant, now)
redis.call('XDEL', key('dead'), ARGV[1])
if redis.call('HEXISTS', key('done:new'), task_key) == 1
  or redis.call('HEXISTS', key('done:old'), task_key) == 1
  or redis.call('HSETNX', key('payload'), task_key, stored) == 0 then
  return 'repeat'
end
local record = letter.record
local member = struct.pack('>BHH', 255 - string.byte(record, 21), #letter.queue, #letter.tenant)
  .. letter.queue .. letter.tenant .. struct.pack('>I8I4', 0, 0) .. string.sub(record, 13, 29)
  .. struct.pack('>I8I8HB', now, 0, 0, 0) .. task_key
redis.call('XADD', key('ingress'), '*', 'd', member)
redis.call('HINCRBY', key('counters'), 'submitted:' .. letter.queue, 1)
redis.call('HINCRBY', key('counters'), 'accepted:' .. letter.queue, 1)
redis.call('HINCRBY', key('live'), letter.tenant, 1)
redis.call('SADD', key('queues'), letter.queue)
remember_id(task_key)
return 'requeued'
