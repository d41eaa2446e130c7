-- Room for waiting tasks, under the bounds of a submission (nil = none). What a call needs is read
-- once and then counted along, as counters are written when all its tasks have been looked at.
local function waiting_room(most, most_queue, most_tenant)
  local of_queue, of_tenant, total = {}, {}, nil
  local function in_queue(queue)
    if not of_queue[queue] then
      local counts = redis.call('HMGET', key('counters'), 'submitted:' .. queue,
        'delayed:' .. queue, 'pending:' .. queue)
      of_queue[queue] = (counts[1] or 0) + (counts[2] or 0) + (counts[3] or 0)
    end
    return of_queue[queue]
  end
  local function of(tenant)
    of_tenant[tenant] = of_tenant[tenant] or (redis.call('HGET', key('live'), tenant) or 0)
      - (redis.call('HGET', key('running'), tenant) or 0)
    return of_tenant[tenant]
  end
  local function everywhere()
    if not total then
      total = 0
      for _, each in ipairs(redis.call('SMEMBERS', key('queues'))) do total = total + in_queue(each) end
    end
    return total
  end
  return {
    full = function(queue, tenant)
      if most and everywhere() >= most then return 'namespace' end
      if most_queue and in_queue(queue) >= most_queue then return 'queue' end
      if most_tenant and of(tenant) >= most_tenant then return 'tenant' end
    end,
    enter = function(queue, tenant)
      if most then total = total + 1 end
      if of_queue[queue] then of_queue[queue] = of_queue[queue] + 1 end
      if of_tenant[tenant] then of_tenant[tenant] = of_tenant[tenant] + 1 end
    end,
  }
end
