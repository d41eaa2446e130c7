-- The newest epoch that anything in reach bears witness to. A server that took over from another may
-- lack the other's last grants, and a flushed one lacks all; what leaders and workers wrote under
-- them may have reached it all the same, and workers announce what they were handed.
-- An epoch above this was given by no election.
local LAST_EPOCH = 2 ^ 48
-- Records looked at: a task of an older epoch may well be the last to end.
local WITNESSES = 64
-- What is no number there counts for nothing: else nobody could lead until it is taken away.
local function noted_epoch(word)
  local noted = tonumber(redis.call('GET', key(word)) or '0') or 0
  return noted < 2 ^ 53 and noted or 0
end
local function newest_epoch(floor)
  local newest = math.max(noted_epoch('epoch'), noted_epoch('fence'))
  local function see(text)
    local epoch = tonumber(text or '0') or 0
    if epoch > newest and epoch <= LAST_EPOCH then newest = epoch end
  end
  see(floor)
  for word, count in pairs({ leadership = 1, results = WITNESSES }) do
    for _, entry in ipairs(redis.call('XREVRANGE', key(word), '+', '-', 'COUNT', count)) do
      local fields = entry[2]
      for i = 1, #fields, 2 do
        if fields[i] == 'epoch' then see(fields[i + 1]) end
      end
    end
  end
  for _, queue in ipairs(redis.call('SMEMBERS', key('queues'))) do
    local last = redis.call('XREVRANGE', queue_key('exec', queue), '+', '-', 'COUNT', 1)[1]
    local delivery = last and last[2][1] == 'd' and last[2][2] or ''
    if #delivery >= 8 then see(struct.unpack('>I8', delivery)) end
  end
  for _, offer in ipairs(redis.call('HVALS', key('announcements'))) do
    see(string.match(offer, '"epoch": ?(%d+)'))
  end
  return newest
end
