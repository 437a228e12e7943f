-- Stands before renew and all that it needs, as claim_simple does before claim: a lease that is set back to the TTL it has. With max equal to the TTL there is nothing to
-- lengthen beyond it, and nothing longer that could be right. The answer is 1.

local answers, began = {}, nil
local left = #KEYS

do
  local call, match = redis.call, string.match
  for i = 1, left do
    local text = redis.pcall('GET', KEYS[i])
    if type(text) == 'string' then
      local id, ttl, max = match(text, '^(%w+) token=%d+ since=%d+ ttl=(%d+) max=(%d+) delay=0 state=held pid=')
      if id == ARGV[i * 2 - 1] and ttl == ARGV[i * 2] and max == ttl then
        call('PEXPIRE', KEYS[i], ttl)
        answers[i] = 1
        left = left - 1
      end
    end
  end
end

if left == 0 then return answers end

