#!lua flags=allow-oom
-- Grants the lease to one owner and gives the grant an epoch above every epoch seen.
-- KEYS[1] prefix of the namespace
-- ARGV[1] owner
-- ARGV[2] ttl in ms
-- RETURNS {epoch, ttl} when granted, {0, ms left} while another owner leads
--#include keys clock
local owner, ttl = ARGV[1], tonumber(ARGV[2])
local held = redis.call('GET', key('leader'))
if held and held ~= owner then
  local left = redis.call('PTTL', key('leader'))
  if left >= 0 then
    -- it asks again when the lease has run out; for people alone, nothing is decided by it
    local now, there = now_ms(), math.max(3 * ttl, left + ttl)
    redis.call('ZREMRANGEBYSCORE', key('standbys'), '-inf', now)
    redis.call('ZADD', key('standbys'), now + there, owner)
    redis.call('PEXPIRE', key('standbys'), there)
    return { 0, left }
  end
end
-- after a flush the counter restarts, but a fence that survived must not lock every leader out
local epoch = math.max(tonumber(redis.call('GET', key('epoch')) or '0'),
  tonumber(redis.call('GET', key('fence')) or '0')) + 1
redis.call('ZREM', key('standbys'), owner)
redis.call('SET', key('leader'), owner, 'PX', ttl)
redis.call('SET', key('epoch'), string.format('%.0f', epoch))
redis.call('XADD', key('leadership'), 'MAXLEN', '~', 1000, '*', 'k', 'granted', 'owner', owner,
  'epoch', epoch)
return { epoch, ttl }
