-- `ids` holds the newest live key of an id, unless that is its first, `0.0.0.id`: so a task that is
-- neither a retry nor a replacement costs nothing here.
local function id_of(task_key)
  return string.match(task_key, '^%d+%.%d+%.%d+%.(.*)$')
end

local function is_first(task_key) return string.sub(task_key, 1, 6) == '0.0.0.' end

local function remember_id(task_key)
  if not is_first(task_key) then redis.call('HSET', key('ids'), id_of(task_key), task_key) end
end

-- The members of a replacing group have ids of their own, so a later key may not have taken over.
local function forget_id(id, task_key)
  if not is_first(task_key) and redis.call('HGET', key('ids'), id) == task_key then
    redis.call('HDEL', key('ids'), id)
  end
end
