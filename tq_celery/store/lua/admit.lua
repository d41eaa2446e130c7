#!lua
-- Moves ranked arrivals from ingress to pending (or straight to exec without a policy).
-- KEYS[1] prefix of the namespace
-- ARGV[1] epoch
-- ARGV[2] generation the ranks belong to
-- ARGV[3...] entry, queue, tenant, score, record of each arrival, in order of entry
-- RETURNS number moved, -1 when the generation is not current; error TQFENCED
--#include keys clock counts fence context heads deliver admission
local epoch = tonumber(ARGV[1])
local refusal = fenced(epoch)
if refusal then return refusal end
if load_context().generation ~= tonumber(ARGV[2]) then return -1 end
if not ARGV[3] then return 0 end

-- Entries leave in order, so an id at or below the cursor is a repeat of this call. Up to `holes`
-- some were removed out of turn, perhaps after the leader had read them.
local function order(id)
  local ms, seq = string.match(id, '^(%d+)-(%d+)$')
  return tonumber(ms), tonumber(seq)
end
local cursor = redis.call('GET', key('cursor')) or '0-0'
local ms, seq = order(ARGV[3])
local seen_ms, seen_seq = order(cursor)
local doubtful = ms < seen_ms or (ms == seen_ms and seq <= seen_seq)
local holes = redis.call('GET', key('holes'))
if holes then
  local hole_ms, hole_seq = order(holes)
  if ms < hole_ms or (ms == hole_ms and seq <= hole_seq) then
    doubtful = true
  else
    redis.call('DEL', key('holes'))
  end
end

local packed_now = struct.pack('>I8', now_ms())
local ids, moved = {}, 0
for i = 3, #ARGV, 5 do
  local id = ARGV[i]
  if not doubtful or redis.call('XRANGE', key('ingress'), id, id)[1] then
    moved = moved + 1
    ids[moved] = id
    gather(ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], stamp(ARGV[i + 4], packed_now))
  end
end
if moved == 0 then return 0 end
admit_gathered('submitted', epoch)
redis.call('XDEL', key('ingress'), unpack(ids))
redis.call('SET', key('cursor'), ids[moved])
write_back()
return moved
