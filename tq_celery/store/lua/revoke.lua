#!lua flags=allow-oom
-- Marks task ids, or stamps, as revoked for a while, and tells where the ids were last seen.
-- KEYS[1] prefix of the namespace
-- ARGV[1] set of marks: revoked or revoked_stamps
-- ARGV[2] ms for which a mark lasts
-- ARGV[3] most marks; those that end first make room
-- ARGV[4...] task ids, or header, NUL and value of each stamp
-- RETURNS per id {key, place}, nil for one that is not known or has ended
--#include keys clock place locate
-- It runs when memory is short, too: what is marked is removed next, and marks are bounded.
local name, now = key(ARGV[1]), now_ms()
local marks, found = {}, {}
for i = 4, #ARGV do
  marks[#marks + 1] = now + tonumber(ARGV[2])
  marks[#marks + 1] = ARGV[i]
  found[i - 3] = ARGV[1] == 'revoked' and whereabouts(ARGV[i])
end
redis.call('ZADD', name, 'GT', unpack(marks))
redis.call('ZREMRANGEBYSCORE', name, '-inf', now)
redis.call('ZREMRANGEBYRANK', name, 0, -1 - tonumber(ARGV[3]))
-- the set as a whole ends with its last mark, and costs a worker nothing from then on
local last = redis.call('ZRANGE', name, -1, -1, 'WITHSCORES')[2]
if last then redis.call('PEXPIREAT', name, string.format('%.0f', last)) end
return found
