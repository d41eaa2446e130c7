-- Wakes the leader, which blocks on this stream; a handful of entries is enough to be seen.
local function wake(kind)
  redis.call('XADD', key('wake'), 'MAXLEN', '~', 64, '*', 'k', kind)
end
