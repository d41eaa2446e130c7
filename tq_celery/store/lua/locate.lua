#!lua flags=no-writes
-- Tells where tasks were put of which only the id is known.
-- KEYS[1] prefix of the namespace
-- ARGV[1...] task ids
-- RETURNS per id {key, place}, nil for one that is not known or has ended
--#include keys place locate
local found = {}
for i = 1, #ARGV do found[i] = whereabouts(ARGV[i]) end
return found
