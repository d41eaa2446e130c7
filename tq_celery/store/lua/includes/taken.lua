-- The best heads of each queue, taken some at a time instead of one by one. A tenant's next head
-- joins the taken ones when it belongs among them; `write_race` puts back what is left.
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
