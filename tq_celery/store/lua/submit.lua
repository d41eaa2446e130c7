#!lua
-- Takes up to 500 tasks, each by itself and in order: payload once, then an ingress entry or, when
-- it is not due, a delayed member. A deadline or due time is '' for none, '+ms' from now or 'ms'
-- absolute; a parent, which the task replaces, is '' for none or outcome/epoch/entry/queue.
-- KEYS[1] prefix of the namespace
-- ARGV[1] most waiting tasks in the namespace, '' unbounded
-- ARGV[2] most waiting tasks in one queue, '' unbounded
-- ARGV[3] most waiting tasks of one tenant, '' unbounded
-- ARGV[4] last ms in which anything may be taken, '' unbounded
-- ARGV[5...] key, digest (16 bytes) .. payload, queue, tenant, cost .. priority, deadline, due, parent
-- RETURNS {'late', ms} or {'taken', ms, per task 'accepted' | 'repeat' | 'stale' | 'duplicate' | 'full' scope}
--#include keys clock place ids wake room
local now = now_ms()
if ARGV[4] ~= '' and now > tonumber(ARGV[4]) then return { 'late', now } end
local bounded = ARGV[1] ~= '' or ARGV[2] ~= '' or ARGV[3] ~= ''
local room = bounded and waiting_room(tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]))
local marked, revoked = redis.call('EXISTS', key('revoked')) == 1, {}
-- What is added to counters and tenants is written once, at the end.
local added, live, queues, delayed = {}, {}, {}, {}
local function add(to, name) to[name] = (to[name] or 0) + 1 end

local function moment(text, none)
  if text == '' then return none end
  if string.byte(text, 1) == 43 then return now + tonumber(string.sub(text, 2)) end
  return tonumber(text)
end

-- Whether the id is marked as revoked; a mark lasts until its ms has passed.
local function is_revoked(id)
  local expires = redis.call('ZSCORE', key('revoked'), id)
  return expires and tonumber(expires) > now
end

-- Ends the tasks whose ids are marked. Making the functions of these steps takes longer than some
-- commands do, so they are made here, where they are needed.
local function end_revoked()
--#include counts served settle outside
  for _, each in ipairs(revoked) do
    local run = { tenant = each.tenant, record = each.record, epoch = 0 }
    end_outside(each.queue, nil, run, 'revoked', each.digest, 'revoked', now)
  end
  write_counts()
end

-- The digest under which the key was taken before; stores the message when it was not.
local function seen_before(task_key, stored)
  local seen = redis.call('HGET', key('done:new'), task_key)
    or redis.call('HGET', key('done:old'), task_key)
  if seen or redis.call('HSETNX', key('payload'), task_key, stored) == 1 then return seen end
  return string.sub(redis.call('HGET', key('payload'), task_key), 1, 16)
end

local function take(i)
  local task_key, message, queue, tenant = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  local due, outcome, epoch, entry, of_queue = moment(ARGV[i + 6], 0)
  if ARGV[i + 7] ~= '' then
    outcome, epoch, entry, of_queue = string.match(ARGV[i + 7], '^(%a+)/(%d+)/([^/]+)/(.*)$')
  end
  local seen = seen_before(task_key, with_place(message, queue, tenant, math.max(due, now)))
  if seen then add(added, 'repeated:' .. queue) end
  -- a second run of a superseded parent repeats its retry: the first acceptance stands
  if seen and (outcome or seen == string.sub(message, 1, 16)) then return 'repeat' end
  if seen then return 'duplicate' end
  -- the message is stored; a refusal takes it back
  local run = outcome and redis.call('HGET', queue_key('running', of_queue), entry)
  if outcome and (not run or struct.unpack('>I8', run) ~= tonumber(epoch)) then
    redis.call('HDEL', key('payload'), task_key)
    return 'stale'
  end
  local scope = room and room.full(queue, tenant)
  if scope then
    redis.call('HDEL', key('payload'), task_key)
    return 'full', scope
  end

  local member = struct.pack('>BHH', 255 - string.byte(ARGV[i + 4], 9), #queue, #tenant)
    .. queue .. tenant .. struct.pack('>I8I4', 0, 0) .. ARGV[i + 4]
    .. struct.pack('>I8I8I8HB', moment(ARGV[i + 5], 9007199254740991), now, 0, 0, 0) .. task_key
  if marked and is_revoked(id_of(task_key)) then
    revoked[#revoked + 1] = { queue = queue, tenant = tenant, digest = string.sub(message, 1, 16),
      record = string.sub(member, 6 + #queue + #tenant) }
  else
    if due > now then
      redis.call('ZADD', key('delayed'), due, member)
      delayed[member] = true
      add(added, 'delayed:' .. queue)
    else
      redis.call('XADD', key('ingress'), '*', 'd', member)
      add(added, 'submitted:' .. queue)
    end
    if room then room.enter(queue, tenant) end
    remember_id(task_key)
  end
  add(added, 'accepted:' .. queue)
  add(live, tenant)
  queues[queue] = true
  if outcome then redis.call('HSET', queue_key('superseded', of_queue), entry, outcome) end
  return 'accepted'
end

local words = {}
for i = 5, #ARGV, 8 do
  local word, scope = take(i)
  words[#words + 1] = scope and word .. ' ' .. scope or word
end
for queue in pairs(queues) do redis.call('SADD', key('queues'), queue) end
if next(delayed) and delayed[redis.call('ZRANGE', key('delayed'), 0, 0)[1]] then wake('delayed') end
for name, more in pairs(added) do redis.call('HINCRBY', key('counters'), name, more) end
for tenant, more in pairs(live) do redis.call('HINCRBY', key('live'), tenant, more) end
if revoked[1] then end_revoked() end
return { 'taken', now, words }
