-- Stands before acquire and all that it needs: a free key that nobody waits for is granted before anything else is even defined, as defining functions costs the server
-- more than the grant does. The answer is the token alone. Whatever is not so simple, errors too, is left to the rest.

local answers, began = {}, nil
local left = #KEYS / 5

do
  local call, pcall, find, keys, args = redis.call, redis.pcall, string.find, KEYS, ARGV
  local time = call('TIME')
  local token = time[2]
  if #token < 6 then token = string.sub('00000' .. token, -6) end
  token = time[1] .. token -- string.format costs as much as a command
  began = time[1] * 1000000 + time[2]
  local stretch = string.sub(token, 1, -10) -- of a thousand seconds
  local digits, stamps = #token, ' token=' .. token .. ' since=' .. string.sub(token, 1, -4) .. ' '
  for i = 1, left do
    local k, a = i * 5 - 4, i * 4 - 3
    local record, fence, life = keys[k], keys[k + 1], args[a + 1]
    if #life <= 7 and call('EXISTS', record, keys[k + 2], keys[k + 3], keys[k + 4]) == 0 then
      -- Reads the last token and writes the next in one. Of two numbers with as many digits the larger one is the larger string.
      local last = pcall('SET', fence, token, 'KEEPTTL', 'GET')
      if not last or type(last) == 'string' and #last == digits and last < token and not find(last, '%D') then
        -- To set the time to live costs as much again: once in a stretch is enough, as setToken says.
        if not last or string.sub(last, 1, -10) ~= stretch then call('PEXPIRE', fence, '97400000') end
        if pcall('SET', record, args[a] .. stamps .. args[a + 2], 'PX', life).ok then
          answers[i] = token
          left = left - 1
        end
      elseif type(last) == 'string' then
        call('SET', fence, last, 'KEEPTTL') -- from the future, or foreign: as it was
      end
    end
  end
end

if left == 0 then return answers end

