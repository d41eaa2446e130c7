-- Gathers ranked tasks by queue and tenant, then moves each tenant's share in one step.
local gathered, straight = {}, {}
local function gather(queue, tenant, score, member)
  if context.direct then
    straight[#straight + 1] = { queue, tenant, tonumber(score), member }
    return
  end
  local tenants = gathered[queue]
  if not tenants then
    tenants = {}
    gathered[queue] = tenants
  end
  local list = tenants[tenant]
  if not list then
    list = {}
    tenants[tenant] = list
  end
  list[#list + 1] = score
  list[#list + 1] = member
end

-- Stamps the admission time into a record.
local function stamp(record, packed_now)
  return string.sub(record, 1, 37) .. packed_now .. string.sub(record, 46)
end

local function admit_gathered(from, epoch)
  local flow = from == 'delayed' and 'promoted' or 'admitted'
  -- without a policy, tasks run in the order in which they came
  local packed_epoch = struct.pack('>I8', epoch)
  for _, each in ipairs(straight) do
    deliver(each[1], each[2], each[3], each[4], packed_epoch)
    count(from, each[1], -1)
    count(flow, each[1], 1)
  end
  write_deliveries()
  for queue, tenants in pairs(gathered) do
    local moved = 0
    for tenant, list in pairs(tenants) do
      moved = moved + #list / 2
      pend(queue, tenant, list)
    end
    count(from, queue, -moved)
    count('pending', queue, moved)
    count(flow, queue, moved)
  end
end
