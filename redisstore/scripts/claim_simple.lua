-- Stands before claim and all that it needs: what is simple is answered before anything else is even defined, as defining functions costs the server more than a grant.
-- Simple are a free key that nobody waits for, granted, and a lock that its holder gives back with nobody waiting, nothing to keep and nothing in doubt. The answers are the
-- token alone, and 1. Whatever else, errors too, is left to the rest: at has where its arguments begin.

local answers, began, at = {}, nil, {}
local left = math.floor(#KEYS / 5) -- on a Cluster there is one claim, and a sixth key that never exists

do
  local call, pcall, find, keys, args = redis.call, redis.pcall, string.find, KEYS, ARGV
  local a, token, floor, stamps = 1, nil, nil, nil
  for i = 1, left do
    local k, id, mark = i * 5 - 4, args[a], args[a + 1]
    at[i] = a - 1
    if mark == '-' then
      a = a + 2
      local text = pcall('GET', keys[k])
      -- All ids have one length.
      if type(text) == 'string' and find(text, id, 1, true) == 1 and call('EXISTS', keys[k + 2], keys[k + 3]) == 0 then
        call('DEL', keys[k])
        answers[i] = 1
        left = left - 1
      end
    elseif mark == '--' then
      a = a + 3
    elseif mark == '>' then
      a = a + 7
    else
      a = a + 4
      if not token then
        local time = call('TIME')
        token = time[2]
        if #token < 6 then token = string.sub('00000' .. token, -6) end
        token = time[1] .. token -- string.format costs as much as a command
        began = time[1] * 1000000 + time[2]
        floor = string.sub(token, 1, -10) .. '000000000' -- where a stretch of a thousand seconds began
        stamps = ' token=' .. token .. ' since=' .. string.sub(token, 1, -4) .. ' '
      end
      if #mark <= 7 and call('EXISTS', keys[k], keys[k + 2], keys[k + 3], keys[k + 4]) == 0 then
        -- Reads the last token and writes the next in one. Of two numbers with as many digits the larger one is the larger string.
        local last = pcall('SET', keys[k + 1], token, 'KEEPTTL', 'GET')
        if not last or type(last) == 'string' and #last == #token and last < token and not find(last, '%D') then
          -- To set the time to live costs as much again: once in a stretch is enough, as setToken says.
          if not last or last < floor then call('PEXPIRE', keys[k + 1], '97400000') end
          if pcall('SET', keys[k], id .. stamps .. args[a - 2], 'PX', mark).ok then
            answers[i] = token
            left = left - 1
          end
        elseif type(last) == 'string' then
          call('SET', keys[k + 1], last, 'KEEPTTL') -- from the future, or foreign: as it was
        end
      end
    end
  end
end

if left == 0 then return answers end

