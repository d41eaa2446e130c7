#!lua flags=allow-oom
-- Grants the lease to one owner and gives the grant an epoch above every epoch that can be found.
-- KEYS[1] prefix of the namespace
-- ARGV[1] owner
-- ARGV[2] ttl in ms
-- ARGV[3] floor: the newest epoch that the caller knows to have been in use
-- RETURNS {epoch, ttl, epoch, ms} when granted, {0, ms left, epoch in force, ms} while another leads
--#include keys clock epochs
local owner, ttl, now = ARGV[1], tonumber(ARGV[2]), now_ms()
local held = redis.call('GET', key('leader'))
if held and held ~= owner then
  local left = redis.call('PTTL', key('leader'))
  if left >= 0 then
    -- it asks again when the lease has run out; for people alone, nothing is decided by it
    local there = math.max(3 * ttl, left + ttl)
    redis.call('ZREMRANGEBYSCORE', key('standbys'), '-inf', now)
    redis.call('ZADD', key('standbys'), now + there, owner)
    redis.call('PEXPIRE', key('standbys'), there)
    local floor, known = tonumber(ARGV[3] or '0'), noted_epoch('epoch')
    if floor > known and floor <= LAST_EPOCH then
      -- The holder's epoch was in use before: with another one here its next renewal fails, and its
      -- next grant is above this.
      known = floor
      redis.call('SET', key('epoch'), string.format('%.0f', floor))
    end
    return { 0, left, known, now }
  end
end
local epoch = newest_epoch(ARGV[3]) + 1
redis.call('ZREM', key('standbys'), owner)
redis.call('SET', key('leader'), owner, 'PX', ttl)
redis.call('SET', key('epoch'), string.format('%.0f', epoch))
redis.call('XADD', key('leadership'), 'MAXLEN', '~', 1000, '*', 'k', 'granted', 'owner', owner,
  'epoch', epoch)
return { epoch, ttl, epoch, now }
