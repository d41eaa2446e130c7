#!lua
-- Writes how far a run of many submissions is, unless another writer was there meanwhile. A repeat
-- by the same writer, whose reply was lost, is written already.
-- KEYS[1] prefix of the namespace
-- ARGV[1] name of the run
-- ARGV[2] what the writer knows of it, '' for nothing
-- ARGV[3] what is to be known of it
-- RETURNS {'written', ms} or {'changed', ms}, where nothing was written
--#include keys clock
local now = now_ms()
local known = redis.call('HGET', key('produced'), ARGV[1]) or ''
if known == ARGV[3] then return { 'written', now } end
if known ~= ARGV[2] then return { 'changed', now } end
redis.call('HSET', key('produced'), ARGV[1], ARGV[3])
return { 'written', now }
