-- Stands before release and all that it needs, as acquire_free does before acquire: a lock that its holder gives back, with nobody waiting, nothing to keep and nothing in
-- doubt. The answer is 1.

local answers, began = {}, nil
local left = #KEYS / 5

do
  local call, pcall, find, keys, args = redis.call, redis.pcall, string.find, KEYS, ARGV
  for i = 1, left do
    local k, a = i * 5 - 4, i * 2 - 1
    if args[a + 1] == '' then
      local record = keys[k]
      local text = pcall('GET', record)
      -- All ids have one length.
      if type(text) == 'string' and find(text, args[a], 1, true) == 1 and call('EXISTS', keys[k + 2], keys[k + 3]) == 0 then
        call('DEL', record)
        answers[i] = 1
        left = left - 1
      end
    end
  end
end

if left == 0 then return answers end

