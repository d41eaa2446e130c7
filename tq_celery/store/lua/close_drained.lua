#!lua flags=allow-oom
-- Forgets drained tasks that have been published, and their payloads.
-- KEYS[1] prefix of the namespace
-- ARGV[1...] keys
-- RETURNS number forgotten
--#include keys
local closed = 0
for i = 1, #ARGV do
  if redis.call('HDEL', key('draining'), ARGV[i]) == 1 then
    redis.call('HDEL', key('payload'), ARGV[i])
    closed = closed + 1
  end
end
return closed
