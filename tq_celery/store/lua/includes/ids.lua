-- Where to look for a task of which only the id is known: `ids` holds its newest live key.
-- Entry: ms at which it was taken or is due (8), lengths of queue and tenant (2 + 2), queue, tenant,
-- key. A search starts at that ms.
local function id_of(task_key)
  return string.match(task_key, '^%d+%.%d+%.%d+%.(.*)$')
end

local function remember_id(queue, tenant, task_key, at)
  redis.call('HSET', key('ids'), id_of(task_key),
    struct.pack('>I8HH', at, #queue, #tenant) .. queue .. tenant .. task_key)
end

local function key_of_entry(entry)
  local _, queue, tenant = struct.unpack('>I8HH', entry)
  return string.sub(entry, 13 + queue + tenant)
end
