-- Stands before claim and all that it needs: what is simple is answered before anything else is even defined, as defining functions costs the server more than a grant.
-- Simple are, with nothing in doubt and nothing to keep: a free key that nobody waits for, granted; a lock that its holder gives back with nobody waiting, or gives to a
-- claim that does not queue; and a hand-off, confirmed. If others wait, there is nothing to do about them. Whatever else, errors too, is left to the rest: at has where its
-- arguments begin. The answers are those of the rest, or short for them: 1, and the token alone if nobody waits. All ids have one length.

local answers, began, at = {}, nil, {}
local left = math.floor(#KEYS / 5) -- on a Cluster there is one claim, and a sixth key that never exists

-- The functions have no upvalues: to make these would cost a grant on a free key some percent.

-- swap returns how many wait, if the claim at a has the lock and gives it to the one that follows, past them.
local function swap(k, n, a)
  local text = ARGV[a + 2] == '0 0' and string.find(ARGV[a + 6], '^%d+ 0 ') and redis.pcall('GET', KEYS[k])
  if type(text) ~= 'string' or string.find(text, ARGV[a], 1, true) ~= 1 then return end
  if n == 1 then return 0 end
  if n ~= 3 or redis.call('EXISTS', KEYS[k + 4]) == 1 then return end
  local marks, waiting = redis.pcall('HMGET', KEYS[k + 3], 'handed', 'passed', ARGV[a + 3]), redis.pcall('ZCARD', KEYS[k + 2])
  if type(waiting) == 'number' and not (marks.err or marks[1] or marks[2] or marks[3]) then return waiting end
end

-- confirm returns the answer, if the claim at a was handed the lock. What removes comes first: when memory is short, a script that has written may write on.
local function confirm(k, n, a, now)
  local call, id, ttl, text = redis.call, ARGV[a], ARGV[a + 1], redis.pcall('GET', KEYS[k])
  if type(text) ~= 'string' or string.find(text, id, 1, true) ~= 1 then return end
  local token, max = string.match(text, ' token=(%d+) since=%d+ ttl=%d+ max=(%d+) delay=0 state=handoff pid=', 27)
  if not token or max + 0 > ttl - string.match(ARGV[a + 3], '%d+') or call('PTTL', KEYS[k]) <= 0 then return end
  local marks, waiting = redis.pcall('HMGET', KEYS[k + 3], 'handed', 'passed'), redis.pcall('ZCARD', KEYS[k + 2])
  if not marks[1] or marks[2] or n == 3 and not (type(waiting) == 'number' and waiting > 0) then return end -- the third may be the tombstones
  if waiting > 0 then call('HDEL', KEYS[k + 3], 'handed', id) else call('DEL', KEYS[k + 3]) end
  call('SET', KEYS[k], id .. ' token=' .. token .. ' since=' .. now .. ' ' .. ARGV[a + 2], 'PX', ttl)
  return waiting > 0 and {'granted', token, waiting} or token
end

do
  local call, pcall, find, keys, args = redis.call, redis.pcall, string.find, KEYS, ARGV
  local a, token, now, floor, stamps = 1, nil, nil, nil, nil
  for i = 1, left do
    local k, id, mark = i * 5 - 4, args[a], args[a + 1]
    at[i] = a - 1
    if mark == '-' then
      a = a + 2
      if pcall('GETRANGE', keys[k], '0', '25') == id and call('EXISTS', keys[k + 2], keys[k + 3]) == 0 then
        call('DEL', keys[k])
        answers[i] = 1
      end
    elseif mark == '--' then
      a = a + 3
    else
      if not token then
        local time = call('TIME')
        token = time[2]
        if #token < 6 then token = string.sub('00000' .. token, -6) end
        token = time[1] .. token -- string.format costs as much as a command
        began, now = time[1] * 1000000 + time[2], string.sub(token, 1, -4)
        floor = string.sub(token, 1, -10) .. '000000000' -- where a stretch of a thousand seconds began
        stamps = ' token=' .. token .. ' since=' .. now .. ' '
      end
      local n, waiting = call('EXISTS', keys[k], keys[k + 2], keys[k + 3], keys[k + 4]), nil
      if mark == '>' then
        waiting = swap(k, n, a)
        a = a + 3
        id, mark = args[a], args[a + 1]
      elseif n == 0 then
        waiting = 0
      elseif n == 2 or n == 3 then
        answers[i] = confirm(k, n, a, now)
      end
      if waiting and #mark <= 7 then
        -- Reads the last token and writes the next in one. Of two numbers with as many digits the larger one is the larger string.
        local last = pcall('SET', keys[k + 1], token, 'KEEPTTL', 'GET')
        if not last or type(last) == 'string' and #last == #token and last < token and not find(last, '%D') then
          -- To set the time to live costs as much again: once in a stretch is enough, as setToken says.
          if not last or last < floor then call('PEXPIRE', keys[k + 1], '97400000') end
          if pcall('SET', keys[k], id .. stamps .. args[a + 2], 'PX', mark).ok then
            answers[i] = waiting > 0 and {'granted', token, waiting} or token
          end
        elseif type(last) == 'string' then
          call('SET', keys[k + 1], last, 'KEEPTTL') -- from the future, or foreign: as it was
        end
      end
      a = a + 4
    end
    if answers[i] then left = left - 1 end
  end
end

if left == 0 then return answers end

