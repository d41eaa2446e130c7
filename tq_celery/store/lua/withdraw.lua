#!lua flags=allow-oom
-- Forgets a cleanly stopped worker; what it still holds is returned uncounted.
-- KEYS[1] prefix of the namespace
-- ARGV[1] worker
-- ARGV[2] length of the results stream, 0 untrimmed
-- ARGV[3] done memory in ms
-- ARGV[4] most keys in the done memory
-- ARGV[5] length of the dead-letter stream, 0 untrimmed
-- ARGV[6] most deliveries in this call
-- RETURNS number returned; fewer than ARGV[6] means the worker is forgotten
--#include keys clock place ids counts context heads run served settle bury aside restore raw recall wake
load_context()
local limits = { tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]) }
local taken = recall_worker(ARGV[1], tonumber(ARGV[6]),
  { word = 'returned', budget = 0, counted = false, delay = 0, reason = '', worker = ARGV[1] },
  limits, tonumber(ARGV[5]), now_ms())
write_back()
wake('workers')
return taken
