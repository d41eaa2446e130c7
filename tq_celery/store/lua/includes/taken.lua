-- The best heads of each queue, taken some at a time instead of one by one. A tenant's next head
-- joins the taken ones when it belongs among them; `write_race` puts back what is left. Scores are
-- kept as numbers to compare and as the server's text to write: turning one into the other is slow.
local DEPTH = 32
local taken, set_back = {}, {}

local function enter_race(queue)
  taken[queue] = { name = queue_key('heads', queue), first = 1, last = 0,
    scores = {}, texts = {}, members = {} }
  set_back[queue] = {}
end

local function write_race(queue)
  local heads, list, n = taken[queue], {}, 0
  for member, text in pairs(set_back[queue]) do
    list[n + 1], list[n + 2] = text, member
    n = n + 2
  end
  for i = heads.first, heads.last do
    list[n + 1], list[n + 2] = heads.texts[i], heads.members[i]
    n = n + 2
  end
  if n > 0 then redis.call('ZADD', heads.name, unpack(list, 1, n)) end
  set_back[queue] = {}
  heads.first, heads.last = 1, 0
end

-- Returns score, member and score as text of the queue's best head, nil when it has none.
local function best_head(queue, want)
  local heads = taken[queue]
  if heads.first > heads.last then
    write_race(queue)
    local found = redis.call('ZPOPMIN', heads.name, want < DEPTH and want or DEPTH)
    heads.last = #found / 2
    for i = 1, heads.last do
      heads.members[i], heads.texts[i] = found[2 * i - 1], found[2 * i]
      heads.scores[i] = tonumber(found[2 * i])
    end
  end
  local first = heads.first
  if first <= heads.last then return heads.scores[first], heads.members[first], heads.texts[first] end
end

local function drop_head(queue)
  taken[queue].first = taken[queue].first + 1
end

local function add_head(queue, score, text, member)
  local heads = taken[queue]
  local scores, members, last = heads.scores, heads.members, heads.last
  if heads.first > last or score > scores[last]
    or (score == scores[last] and member > members[last]) then
    set_back[queue][member] = text
    return
  end
  local texts = heads.texts
  while last >= heads.first
    and (score < scores[last] or (score == scores[last] and member < members[last])) do
    scores[last + 1], texts[last + 1], members[last + 1] = scores[last], texts[last], members[last]
    last = last - 1
  end
  scores[last + 1], texts[last + 1], members[last + 1] = score, text, member
  heads.last = heads.last + 1
end

-- Moves a head to another score, be it among the taken ones, set back, or still in its set.
local function move_head(queue, score, member)
  local heads, text = taken[queue], string.format('%.17g', score)
  if heads then
    for i = heads.first, heads.last do
      if heads.members[i] == member then
        for j = i, heads.last - 1 do
          heads.scores[j], heads.texts[j] = heads.scores[j + 1], heads.texts[j + 1]
          heads.members[j] = heads.members[j + 1]
        end
        heads.last = heads.last - 1
        return add_head(queue, score, text, member)
      end
    end
    if set_back[queue][member] then
      set_back[queue][member] = text
      return
    end
  end
  redis.call('ZADD', queue_key('heads', queue), 'XX', text, member)
end
