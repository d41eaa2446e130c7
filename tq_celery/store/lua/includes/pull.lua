-- Takes waiting tasks out of the middle of the index, and unread deliveries out of an exec stream.
-- What became of the tenants' heads is settled once, by `renew_heads`, when all members are out.
local firsts = {}
local function pull(queue, tenant, member)
  local name, tenants = tenant_key('pending', queue, tenant), firsts[queue] or {}
  firsts[queue] = tenants
  if tenants[tenant] == nil then
    tenants[tenant] = redis.call('ZRANGE', name, 0, 0)[1] or false
  end
  if redis.call('ZREM', name, member) == 0
    and redis.call('ZREM', tenant_key('outdated', queue, tenant), member) == 0 then
    return nil
  end
  count('pending', queue, -1)
  return member
end

-- Under a fair policy the tenant keeps its start, so that what it waited for is not lost. The start
-- may not lie further before V than the new head's own cost: else a tenant could let a costly task
-- wait, revoke it, and have all that V has moved since then at once. There is nothing to give back
-- for a task that was charged: no start is ever ahead of V.
local function follow(queue, tenant, first, rank)
  local group = context.fair and group_of(queue)
  if not group then
    if first then place(queue, tenant, first, rank) end
    return
  end
  local starts, waits = queue_key('starts', group), first ~= nil
  local floor = first and virtual_time(group) - charge(tenant, first)
  local start = tonumber(redis.call('HGET', starts, tenant) or '')
  local moved = floor and start and start < floor
  if moved then redis.call('HSET', starts, tenant, string.format('%.17g', floor)) end
  if first then place(queue, tenant, first, rank) end
  for _, peer in ipairs(peers_of(queue)) do
    local head = peer ~= queue
      and redis.call('ZRANGE', tenant_key('pending', peer, tenant), 0, 0, 'WITHSCORES') or {}
    waits = waits or head[1] ~= nil
    if moved and head[1] and redis.call('ZSCORE', queue_key('heads', peer),
        string.sub(head[1], 1, 12) .. tenant) then
      place(peer, tenant, head[1], head[2])
    end
  end
  if not waits then redis.call('HDEL', starts, tenant) end
end

local function renew_head(queue, tenant, old)
  local first, rank = unpack(redis.call('ZRANGE', tenant_key('pending', queue, tenant), 0, 0,
    'WITHSCORES'))
  local stale = queue_key('stale', queue)
  if old and first ~= old then
    local head = string.sub(old, 1, 12) .. tenant
    if redis.call('ZREM', queue_key('heads', queue), head) == 1 then
      follow(queue, tenant, first, rank)
    end
    -- a tenant that a switch of the policy has not reached yet is listed by its first task, too
    local score = redis.call('ZSCORE', stale, head)
    if score then
      redis.call('ZREM', stale, head)
      if first then redis.call('ZADD', stale, score, string.sub(first, 1, 12) .. tenant) end
    end
  end
  if first or redis.call('EXISTS', tenant_key('outdated', queue, tenant)) == 1 then return end
  redis.call('SREM', queue_key('gated', queue), tenant)
  redis.call('SREM', queue_key('rerank', queue), tenant)
  local front = redis.call('ZRANGE', stale, 0, 0)[1]
  if front and string.sub(front, 13) == tenant then redis.call('ZREM', stale, front) end
end

local function renew_heads()
  for queue, tenants in pairs(firsts) do
    for tenant, old in pairs(tenants) do renew_head(queue, tenant, old) end
  end
end

-- The run record of a delivery that no worker has read; nil when one has, or there is none.
local last_read = {}
local function unread_run(queue, entry)
  local run, stream = current_run(queue, entry, nil), queue_key('exec', queue)
  if not run or not redis.call('XRANGE', stream, entry, entry)[1] then return nil end
  if not last_read[queue] then
    local groups = redis.pcall('XINFO', 'GROUPS', stream)
    last_read[queue] = '0-0'
    for _, each in ipairs(groups.err and {} or groups) do
      if each[2] == 'workers' then last_read[queue] = each[8] end
    end
  end
  if not redis.call('XRANGE', stream, '(' .. last_read[queue], entry, 'COUNT', 1)[1] then return nil end
  return run
end
