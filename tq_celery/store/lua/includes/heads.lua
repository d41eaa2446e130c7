-- The two-level index: a tenant's first task represents it in `heads:<queue>`.
-- A head's member is the task's twelve-byte arrival followed by the tenant. Its score is the task's
-- own rank or, under a fair policy, start + cost / weight: the one formula that lives in Lua.
-- Makes `member` the tenant's head. Heads are gathered and written together by `write_heads`.
local placing = {}
local function place(queue, tenant, member, rank)
  local tenants = placing[queue] or {}
  placing[queue] = tenants
  tenants[tenant] = { member, rank }
end

local function unplace(queue, tenant, member)
  if placing[queue] then placing[queue][tenant] = nil end
  redis.call('ZREM', queue_key('heads', queue), string.sub(member, 1, 12) .. tenant)
end

-- The starts of some tenants of a group, in their order: one that was not backlogged starts at V.
local function starts_of(group, tenants)
  local name, V, begun = queue_key('starts', group), virtual_time(group), {}
  local found = redis.call('HMGET', name, unpack(tenants))
  for i = 1, #tenants do
    found[i] = found[i] and tonumber(found[i])
    if not found[i] then
      found[i] = V
      begun[#begun + 1] = tenants[i]
      begun[#begun + 1] = string.format('%.17g', V)
    end
  end
  if begun[1] then redis.call('HSET', name, unpack(begun)) end
  return found
end

-- A tenant that is not eligible waits in `gated` and keeps no credit.
local function gate(queue, tenant)
  redis.call('SADD', queue_key('gated', queue), tenant)
  if context.fair then redis.call('HDEL', queue_key('starts', group_of(queue)), tenant) end
end

local function write_heads()
  for queue, placed in pairs(placing) do
    local tenants = {}
    for tenant in pairs(placed) do
      if eligible(tenant) then tenants[#tenants + 1] = tenant else gate(queue, tenant) end
    end
    if tenants[1] then
      local starts, list = context.fair and starts_of(group_of(queue), tenants), {}
      for i = 1, #tenants do
        local tenant = tenants[i]
        local member, score = placed[tenant][1], placed[tenant][2]
        if starts then score = string.format('%.17g', starts[i] + charge(tenant, member)) end
        list[2 * i - 1] = score
        list[2 * i] = string.sub(member, 1, 12) .. tenant
      end
      redis.call('ZADD', queue_key('heads', queue), unpack(list))
    end
  end
  placing = {}
end

-- Writes what a script has gathered: heads first, since a cap counts what the script settled.
local function write_back()
  write_heads()
  write_counts()
end

-- Adds members {score, member, ...} to a tenant's pending set and renews its head if it changed.
local function pend(queue, tenant, list)
  local name = tenant_key('pending', queue, tenant)
  local old = redis.call('ZRANGE', name, 0, 0, 'WITHSCORES')
  local first, rank = old[1], old[2]
  local best = first and tonumber(rank)
  for i = 1, #list, 2 do
    local score, member = tonumber(list[i]), list[i + 1]
    if not best or score < best or (score == best and member < first) then
      first, rank, best = member, list[i], score
    end
  end
  redis.call('ZADD', name, unpack(list))
  if first == old[1] then return end
  if old[1] then unplace(queue, tenant, old[1]) end
  place(queue, tenant, first, rank)
end

-- Lets a gated tenant compete again, at V, on every queue where it waits.
local function release(tenant)
  local released = false
  for _, queue in ipairs(redis.call('SMEMBERS', key('queues'))) do
    if redis.call('SISMEMBER', queue_key('gated', queue), tenant) == 1 and eligible(tenant) then
      redis.call('SREM', queue_key('gated', queue), tenant)
      local first = redis.call('ZRANGE', tenant_key('pending', queue, tenant), 0, 0, 'WITHSCORES')
      if first[1] then
        place(queue, tenant, first[1], first[2])
        released = true
      end
    end
  end
  return released
end
