-- Counters gathered during a script and written once at its end, some hundred fields a command.
local tallies = { counters = {}, live = {}, running = {} }
local function tally(hash, field, by)
  local fields = tallies[hash]
  fields[field] = (fields[field] or 0) + by
end
local function count(word, queue, by) tally('counters', word .. ':' .. queue, by) end

-- Keeps the greatest value of a counter's field; what reaches `bound` there does not count.
local greatest = {}
local function keep_greatest(word, queue, value, bound)
  local field = word .. ':' .. queue
  greatest[field] = { math.max(value, greatest[field] and greatest[field][1] or 0), bound }
  tallies.counters[field] = 1 -- is looked at
end

-- What an include has to do before the counters are written.
local closing = {}

-- Appends to a stream that may be capped at about `most` entries (0: it is not). The cap is applied
-- once, at the end of the script, and what it drops is counted.
local capped = {}
local function append(word, most, fields)
  redis.call('XADD', key(word), '*', unpack(fields))
  if most > 0 then capped[word] = most end
end

local function write_counts()
  for _, step in ipairs(closing) do step() end
  for word, most in pairs(capped) do
    count('dropped', word, redis.call('XTRIM', key(word), 'MAXLEN', '~', most))
  end
  for hash, changes in pairs(tallies) do
    local name, fields = key(hash), {}
    for field, by in pairs(changes) do
      if by ~= 0 then fields[#fields + 1] = field end
    end
    for start = 1, #fields, 500 do
      local stop = math.min(start + 499, #fields)
      local old, new, gone = redis.call('HMGET', name, unpack(fields, start, stop)), {}, {}
      for i = start, stop do
        local field, before = fields[i], old[i - start + 1] or 0
        local value = before + changes[field]
        local most = hash == 'counters' and greatest[field]
        if most then
          before = tonumber(before)
          value = before < most[2] and math.max(before, most[1]) or most[1]
        end
        -- tenants at zero leave the hash, so its size follows the active ones
        if value == 0 and hash ~= 'counters' then
          gone[#gone + 1] = field
        else
          new[#new + 1] = field
          -- the server would write 1e+17, which is no integer
          new[#new + 1] = value < 1e17 and value or string.format('%.0f', value)
        end
      end
      if new[1] then redis.call('HSET', name, unpack(new)) end
      if gone[1] then redis.call('HDEL', name, unpack(gone)) end
    end
    tallies[hash] = {}
  end
end
