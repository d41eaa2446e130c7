-- Gathers ranked tasks by queue and tenant, then moves each tenant's share in one step.
local gathered = {}
local function gather(queue, tenant, score, member)
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
  local packed_epoch = struct.pack('>I8', epoch)
  for queue, tenants in pairs(gathered) do
    local moved = 0
    for tenant, list in pairs(tenants) do
      moved = moved + #list / 2
      if context.direct then
        for i = 1, #list, 2 do
          deliver(queue, tenant, tonumber(list[i]), list[i + 1], packed_epoch)
        end
      else
        pend(queue, tenant, list)
      end
    end
    count(from, queue, -moved)
    if not context.direct then count('pending', queue, moved) end
  end
  write_deliveries()
end
