-- Returns the newest live key of an id and where to look for it: the end of its stored value.
local function whereabouts(id)
  local task_key = redis.call('HGET', key('ids'), id) or '0.0.0.' .. id
  local stored = redis.call('HGET', key('payload'), task_key)
  if not stored or #stored < 28 then return false end
  -- a task that has ended keeps its payload until its obituary is written
  if redis.call('HEXISTS', key('done:new'), task_key) == 1
    or redis.call('HEXISTS', key('done:old'), task_key) == 1 then
    return false
  end
  return { task_key, string.sub(stored, length_of_message(stored) + 1) }
end
