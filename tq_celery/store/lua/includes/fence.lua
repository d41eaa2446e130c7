-- Refuses a superseded epoch before anything is written, and records a newer one. A namespace that
-- was emptied under its leader ends the term as well: the next one writes the configuration first,
-- and until then nothing may be ranked or placed as if there were none.
local function fenced(epoch)
  local known = redis.call('GET', key('fence'))
  local fence = tonumber(known or '0')
  if epoch < fence then
    return redis.error_reply('TQFENCED ' .. string.format('%.0f', fence))
  end
  if not known and redis.call('EXISTS', key('config')) == 0 then
    return redis.error_reply('TQFENCED ' .. string.format('%.0f', epoch + 1))
  end
  if epoch > fence then redis.call('SET', key('fence'), string.format('%.0f', epoch)) end
  return nil
end
