-- Names of keys, derived from the namespace prefix in KEYS[1]; keys.py holds the table of all keys.
local PREFIX = KEYS[1]
local function key(word) return PREFIX .. word end
local function queue_key(word, queue) return PREFIX .. word .. ':' .. queue end
local function tenant_key(word, queue, tenant)
  return PREFIX .. word .. ':' .. #queue .. ':' .. queue .. ':' .. tenant
end
