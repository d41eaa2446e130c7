#!lua
-- Takes one task: payload once, then an ingress entry or, when it is not due, a delayed member.
-- KEYS[1] prefix of the namespace
-- ARGV[1] key of the task
-- ARGV[2] digest, 16 bytes
-- ARGV[3] payload
-- ARGV[4] queue
-- ARGV[5] tenant
-- ARGV[6] cost (double) and priority (byte), packed
-- ARGV[7] deadline: '' none, '+ms' from now, 'ms' absolute
-- ARGV[8] due: '' at once, '+ms' from now, 'ms' absolute
-- ARGV[9] parent entry, '' when the task replaces none
-- ARGV[10] parent queue
-- ARGV[11] parent epoch
-- ARGV[12] outcome of the parent: retried or replaced
-- ARGV[13] most waiting tasks in the namespace, '' unbounded
-- ARGV[14] most waiting tasks in the queue, '' unbounded
-- ARGV[15] most waiting tasks of the tenant, '' unbounded
-- RETURNS {'accepted' | 'repeat' | 'stale' | 'duplicate' | 'full', ms, scope}
--#include keys clock wake
local task_key, digest, queue, tenant = ARGV[1], ARGV[2], ARGV[4], ARGV[5]
local now = now_ms()
local function moment(text, none)
  if text == '' then return none end
  if string.byte(text, 1) == 43 then return now + tonumber(string.sub(text, 2)) end
  return tonumber(text)
end
local deadline, due = moment(ARGV[7], 9007199254740991), moment(ARGV[8], 0)
local has_parent = ARGV[9] ~= ''

local seen = redis.call('HGET', key('done:new'), task_key)
  or redis.call('HGET', key('done:old'), task_key)
if not seen and redis.call('HSETNX', key('payload'), task_key, digest .. ARGV[3]) == 0 then
  seen = string.sub(redis.call('HGET', key('payload'), task_key), 1, 16)
elseif not seen then
  -- the payload is stored; every refusal below takes it back
  local function refuse(word, scope)
    redis.call('HDEL', key('payload'), task_key)
    return { word, now, scope or '' }
  end
  if has_parent then
    local run = redis.call('HGET', queue_key('running', ARGV[10]), ARGV[9])
    if not run or struct.unpack('>I8', run) ~= tonumber(ARGV[11]) then return refuse('stale') end
  end
  local function waiting(of_queue)
    local counts = redis.call('HMGET', key('counters'), 'submitted:' .. of_queue,
      'delayed:' .. of_queue, 'pending:' .. of_queue)
    return (counts[1] or 0) + (counts[2] or 0) + (counts[3] or 0)
  end
  if ARGV[13] ~= '' then
    local total = 0
    for _, each in ipairs(redis.call('SMEMBERS', key('queues'))) do total = total + waiting(each) end
    if total >= tonumber(ARGV[13]) then return refuse('full', 'namespace') end
  end
  if ARGV[14] ~= '' and waiting(queue) >= tonumber(ARGV[14]) then return refuse('full', 'queue') end
  if ARGV[15] ~= '' then
    local live = redis.call('HGET', key('live'), tenant) or 0
    local running = redis.call('HGET', key('running'), tenant) or 0
    if live - running >= tonumber(ARGV[15]) then return refuse('full', 'tenant') end
  end
end
if seen then
  -- a second run of a superseded parent repeats its retry: the first acceptance stands
  return { (seen == digest or has_parent) and 'repeat' or 'duplicate', now, '' }
end

local member = struct.pack('>BHH', 255 - string.byte(ARGV[6], 9), #queue, #tenant) .. queue .. tenant
  .. struct.pack('>I8I4', 0, 0) .. ARGV[6]
  .. struct.pack('>I8I8I8HB', deadline, now, 0, 0, 0) .. task_key
if due > now then
  redis.call('ZADD', key('delayed'), due, member)
  redis.call('HINCRBY', key('counters'), 'delayed:' .. queue, 1)
  if redis.call('ZRANGE', key('delayed'), 0, 0)[1] == member then wake('delayed') end
else
  redis.call('XADD', key('ingress'), '*', 'd', member)
  redis.call('HINCRBY', key('counters'), 'submitted:' .. queue, 1)
end
redis.call('HINCRBY', key('counters'), 'accepted:' .. queue, 1)
redis.call('HINCRBY', key('live'), tenant, 1)
redis.call('SADD', key('queues'), queue)
if has_parent then
  redis.call('HSET', queue_key('superseded', ARGV[10]), ARGV[9], ARGV[12])
end
return { 'accepted', now, '' }
