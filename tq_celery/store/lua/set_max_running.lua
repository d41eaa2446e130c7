#!lua
-- Sets or removes the cap on running tasks of the whole namespace.
-- KEYS[1] prefix of the namespace
-- ARGV[1] most running tasks, '' removes the cap
-- RETURNS 1
--#include keys clock changed wake
redis.call('HSET', key('config'), 'max_running', ARGV[1])
redis.call('DEL', key('starved'))
note_change('caps')
wake('config')
return 1
