-- A value of `payload`: digest (16), message, queue, tenant, then the ms at which the task was taken
-- or is due (8) and the lengths of queue and tenant (2 + 2). What stands behind the message is its
-- place: a task of which only the id is known is looked for there.
local function with_place(message, queue, tenant, at)
  return message .. queue .. tenant .. struct.pack('>I8HH', at, #queue, #tenant)
end

-- The length of digest and message in a stored value.
local function length_of_message(stored)
  if #stored < 28 then return #stored end
  local queue, tenant = struct.unpack('>HH', stored, #stored - 3)
  return math.max(16, #stored - 12 - queue - tenant)
end
