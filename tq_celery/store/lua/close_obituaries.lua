#!lua flags=allow-oom
-- Forgets obituaries that a worker has written, and their payloads.
-- KEYS[1] prefix of the namespace
-- ARGV[1...] queue, entry, key of each obituary
-- RETURNS number closed
--#include keys
local closed = 0
for i = 1, #ARGV, 3 do
  local stream = queue_key('obituary', ARGV[i])
  redis.call('XACK', stream, 'workers', ARGV[i + 1])
  if redis.call('XDEL', stream, ARGV[i + 1]) == 1 then
    redis.call('HDEL', key('payload'), ARGV[i + 2])
    closed = closed + 1
  end
end
return closed
