-- Counters gathered during a script and written once at its end.
local tallies = { counters = {}, live = {}, running = {} }
local function tally(hash, field, by)
  local table_ = tallies[hash]
  table_[field] = (table_[field] or 0) + by
end
local function count(word, queue, by) tally('counters', word .. ':' .. queue, by) end
local function write_counts()
  for hash, fields in pairs(tallies) do
    local name = key(hash)
    for field, by in pairs(fields) do
      -- tenants at zero leave the hash, so its size follows the active ones
      if by ~= 0 and redis.call('HINCRBY', name, field, by) == 0 and hash ~= 'counters' then
        redis.call('HDEL', name, field)
      end
    end
    tallies[hash] = {}
  end
end
