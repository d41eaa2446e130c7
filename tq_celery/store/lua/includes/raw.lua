-- Moves a stream entry that is no task to the dead-letter stream, with its raw fields.
-- Returns whether the entry was there. A thousand fields are kept: `unpack` fails near 8,000 values.
local function bury_raw(stream, queue, entry, reason, now)
  local found = redis.call('XRANGE', stream, entry, entry)[1]
  if not found then return false end
  local fields = { 'queue', queue, 'reason', reason, 'outcome', 'dead', 'at', now, 'entry', entry }
  for i = 1, math.min(#found[2], 2000), 2 do
    fields[#fields + 1] = 'raw_' .. found[2][i]
    fields[#fields + 1] = found[2][i + 1]
  end
  redis.call('XADD', key('dead'), '*', unpack(fields))
  redis.call('XDEL', stream, entry)
  redis.call('HINCRBY', key('counters'), 'unreadable:' .. queue, 1)
  return true
end
