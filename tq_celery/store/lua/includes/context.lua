-- What a script has to know of the namespace before it ranks or places: read once, at its start.
local context = nil
local function load_context()
  local config = redis.call('HMGET', key('config'), 'between', 'generation', 'max_running')
  context = {
    fair = config[1] == 'fair',
    direct = config[1] == 'none',
    generation = tonumber(config[2] or '1'),
    max_running = tonumber(config[3] or ''),
    weights = redis.call('EXISTS', key('weights')) == 1,
    caps = redis.call('EXISTS', key('caps')) == 1,
    paused = redis.call('EXISTS', key('paused_tenants')) == 1,
    groups = redis.call('EXISTS', key('groups')) == 1,
    virtual = {},
  }
  return context
end

local function group_of(queue)
  return context.groups and redis.call('HGET', key('groups'), queue) or queue
end

-- Queues that share workers with `queue`, itself included.
local function peers_of(queue)
  if not context.groups then return { queue } end
  local group, peers, named, pairs_ = group_of(queue), {}, false, redis.call('HGETALL', key('groups'))
  for i = 1, #pairs_, 2 do
    named = named or pairs_[i] == group
    if pairs_[i + 1] == group then peers[#peers + 1] = pairs_[i] end
  end
  -- a queue without a field is in the group of its own name
  if not named then peers[#peers + 1] = group end
  return peers
end

local function virtual_time(group)
  local V = context.virtual[group]
  if not V then
    V = tonumber(redis.call('HGET', key('virtual'), group) or '0')
    context.virtual[group] = V
  end
  return V
end

-- Service the policy will charge for a task; given-back and reclaimed work is already paid.
local function charge(tenant, member)
  if string.byte(member, 48) == 1 then return 0 end
  local cost = struct.unpack('>d', member, 13)
  local weight = context.weights and tonumber(redis.call('HGET', key('weights'), tenant) or '1') or 1
  return cost / weight
end

-- False while the tenant is paused or at its cap.
local function eligible(tenant)
  if context.paused and redis.call('SISMEMBER', key('paused_tenants'), tenant) == 1 then
    return false
  end
  if context.caps then
    local cap = tonumber(redis.call('HGET', key('caps'), tenant) or '')
    if cap then
      local running = tonumber(redis.call('HGET', key('running'), tenant) or '0')
        + (tallies.running[tenant] or 0)
      return running < cap
    end
  end
  return true
end
