-- The race between heads: those of each queue, and the queues of one worker set among each other.
-- Heads are taken from a queue some at a time and raced here; a tenant's next head joins the taken
-- ones when it belongs among them, and `write_race` puts the rest back. `queues` and `peers` (queues
-- that share a tenant's start) are filled by the dispatch that includes this.
local queues, peers = {}, {}
local DEPTH = 16
local taken, set_back = {}, {}

local function before(score, member, other)
  return score < other[1] or (score == other[1] and member < other[2])
end

local function write_race(queue)
  local list = {}
  for member, score in pairs(set_back[queue]) do
    list[#list + 1] = string.format('%.17g', score)
    list[#list + 1] = member
  end
  local heads = taken[queue]
  for i = heads.first, heads.last do
    list[#list + 1] = string.format('%.17g', heads[i][1])
    list[#list + 1] = heads[i][2]
  end
  if list[1] then redis.call('ZADD', heads.name, unpack(list)) end
  set_back[queue] = {}
  taken[queue] = { name = heads.name, first = 1, last = 0 }
end

local function enter_race(queue)
  taken[queue] = { name = queue_key('heads', queue), first = 1, last = 0 }
  set_back[queue] = {}
end

-- The queue's best head as {score, member}, nil when it has none; at most `want` are taken for it.
local function best_head(queue, want)
  local heads = taken[queue]
  if heads.first > heads.last then
    write_race(queue)
    local found = redis.call('ZPOPMIN', heads.name, math.min(DEPTH, want))
    heads = taken[queue]
    heads.last = #found / 2
    for i = 1, heads.last do heads[i] = { tonumber(found[2 * i]), found[2 * i - 1] } end
  end
  return heads[heads.first]
end

local function drop_head(queue)
  local heads = taken[queue]
  heads[heads.first] = nil
  heads.first = heads.first + 1
end

local function add_head(queue, score, member)
  local heads = taken[queue]
  local last = heads.last
  if heads.first > last or not before(score, member, heads[last]) then
    set_back[queue][member] = score
    return
  end
  while last >= heads.first and before(score, member, heads[last]) do
    heads[last + 1] = heads[last]
    last = last - 1
  end
  heads[last + 1] = { score, member }
  heads.last = heads.last + 1
end

-- The queue with the best head; equal scores fall to the earlier arrival.
local function best_queue(want)
  local best, found
  for _, queue in ipairs(queues) do
    local head = best_head(queue, want)
    if head and (not found or before(head[1], head[2], found)) then best, found = queue, head end
  end
  return best, found
end

-- Moves a head that may be among the taken ones, set back, or still in its set; false when gated.
local function move_head(queue, score, member)
  local heads = taken[queue]
  if heads then
    for i = heads.first, heads.last do
      if heads[i][2] == member then
        for j = i, heads.last do heads[j] = heads[j + 1] end
        heads.last = heads.last - 1
        return add_head(queue, score, member)
      end
    end
    if set_back[queue][member] then
      set_back[queue][member] = score
      return
    end
  end
  redis.call('ZADD', queue_key('heads', queue), 'XX', string.format('%.17g', score), member)
end

-- Under a fair policy the tenant's other queues share the start that this dispatch moved.
local function rescore(queue, tenant, finish)
  local waits = false
  for _, peer in ipairs(peers) do
    if peer ~= queue then
      local first = redis.call('ZRANGE', tenant_key('pending', peer, tenant), 0, 0)[1]
      if first then
        waits = true
        move_head(peer, finish + charge(tenant, first), string.sub(first, 1, 12) .. tenant)
      end
    end
  end
  return waits
end
