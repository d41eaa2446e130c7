-- Refuses a superseded epoch before anything is written, and records a newer one.
local function fenced(epoch)
  local fence = tonumber(redis.call('GET', key('fence')) or '0')
  if epoch < fence then
    return redis.error_reply('TQFENCED ' .. string.format('%.0f', fence))
  end
  if epoch > fence then redis.call('SET', key('fence'), string.format('%.0f', epoch)) end
  return nil
end
