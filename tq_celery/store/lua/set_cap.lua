#!lua
-- Sets or removes a tenant's cap on running tasks.
-- KEYS[1] prefix of the namespace
-- ARGV[1] tenant
-- ARGV[2] most running tasks, '' removes the cap
-- RETURNS 1 when the change let waiting tasks compete again, else 0
--#include keys counts context heads clock changed wake
if ARGV[2] == '' then
  redis.call('HDEL', key('caps'), ARGV[1])
else
  redis.call('HSET', key('caps'), ARGV[1], ARGV[2])
end
load_context()
local released = release(ARGV[1])
write_back()
note_change('caps')
wake('config')
return released and 1 or 0
