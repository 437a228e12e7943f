-- Stands before every script: what a lock is, and how its record is read and written. Before it stands what was answered without it: answers and began, the time.
--
-- A lock has five keys in one slot: the record, the last token, the queue (id by ticket), the waiters (id to what a hand-over must know) and the tombstones (id by their
-- end). All times are milliseconds of the server's clock. Numbers go to Redis through dec: Lua's own conversion keeps 14 digits, a token has 16.

local NOBODY = string.rep('-', 26)
local DAY = 86400000
local KEY_TYPES = {'string', 'string', 'zset', 'hash', 'zset'}

local function dec(n) return string.format('%.0f', n) end

-- stamp gives l the time, which is one for all claims of a call.
local function stamp(l)
  if not began then
    local t = redis.call('TIME')
    began = t[1] * 1000000 + t[2]
  end
  l.us, l.now = began, math.floor(began / 1000)
end

local function parse(text)
  local id, token, since, ttl, max, delay, state, who =
    string.match(text, '^([%w%-]+) token=(%d+) since=(%d+) ttl=(%d+) max=(%d+) delay=(%d+) state=(%a+) (pid=.*)$')
  if not id or #id ~= 26 then return nil end
  return {id = id, token = tonumber(token), ttl = tonumber(ttl), max = tonumber(max), delay = tonumber(delay),
    since = tonumber(since), state = state, who = who}
end

-- measure finds what is left of the record. More than its max is proof of a clock that stepped back, and nobody shall wait an hour for ten seconds; no limit at all is
-- somebody's PERSIST.
local function measure(l)
  local left = redis.call('PTTL', l.key)
  l.cut = left < 0 or left > l.rec.max
  l.left = l.cut and l.rec.max or left
end

-- open reads the lock whose keys begin at KEYS[first]. A key of a foreign type fails here, before anything is written.
local function open(first)
  local l = {crowd = 0, key = KEYS[first], fence = KEYS[first + 1], queue = KEYS[first + 2], waiters = KEYS[first + 3],
    gone = KEYS[first + 4]}
  l.text = redis.call('GET', l.key)
  l.rec = l.text and parse(l.text) or nil
  if redis.call('EXISTS', l.queue, l.waiters, l.gone) > 0 then
    l.crowd = redis.call('ZCARD', l.queue)
    local marks = redis.call('HMGET', l.waiters, 'handed', 'passed')
    l.handed, l.passed = marks[1], marks[2]
    l.tombs = redis.call('ZCARD', l.gone) > 0
    l.peopled = l.crowd > 0 or l.handed
  end
  return l
end

-- look is open for who needs the time and what is left. It refuses to go on over a value that is no record: whose it is we cannot tell.
local function look(first)
  local l = open(first)
  stamp(l)
  if l.rec then
    measure(l)
  elseif l.text then
    error({err = 'FOREIGN ' .. l.key})
  end
  return l
end

local function mine(l, id) return l.rec ~= nil and l.rec.id == id end

-- live says that the lease goes on, so that its holder may work: the rest of the key's life is lock delay.
local function live(l) return (l.rec.state == 'held' or l.rec.state == 'handoff') and l.left > l.rec.delay end

local function compose(r)
  return string.format('%s token=%.0f since=%.0f ttl=%.0f max=%.0f delay=%.0f state=%s %s',
    r.id, r.token, r.since, r.ttl, r.max, r.delay, r.state, r.who)
end

-- write makes r the record for the next life milliseconds.
local function write(l, r, life)
  r.max = life
  l.text, l.rec, l.left, l.cut = compose(r), r, life, false
  redis.call('SET', l.key, l.text, 'PX', dec(life))
end

local function drop(l)
  redis.call('DEL', l.key)
  l.text, l.rec = false, nil
end

-- readToken is read before the first write, so that a foreign value stops a grant and does not halve it. "0x10", "1e18" and "nan" are numbers to Lua.
local function readToken(l)
  local last = redis.call('GET', l.fence)
  if not last then
    l.last = 0
  elseif string.match(last, '^%d+$') and #last <= 16 then
    l.last = tonumber(last)
  else
    error({err = 'FOREIGN ' .. l.fence})
  end
end

-- setToken keeps the last token for a day beyond the record, and one from the future for a day beyond its time. A thousand seconds more, and ten thousand for the record
-- at least, let grants that follow leave the time to live as it is.
local function setToken(l, token, life)
  l.last = token
  local keep = DAY + 1000000 + math.max(life, 10000000, math.ceil((token - l.us) / 1000))
  redis.call('SET', l.fence, dec(token), 'PX', dec(keep))
end

-- mint is the next token: time alone could repeat, a counter alone goes back when the server forgets. From 2^53 on Lua cannot count.
local function mint(l)
  local token = math.max(l.last + 1, l.us)
  if token >= 9007199254740991 then error({err = 'EXHAUSTED ' .. l.fence}) end
  return token
end

local function buried(l, id)
  local ends = l.tombs and redis.call('ZSCORE', l.gone, id)
  return ends and tonumber(ends) > l.now and tonumber(ends) - l.now
end

-- bury refuses the id from now on. The removal of old ones comes first: when memory is short, a script that has written may write on.
local function bury(l, id)
  local old = redis.call('ZRANGEBYSCORE', l.gone, '-inf', dec(l.now), 'LIMIT', 0, 100)
  redis.call('ZREM', l.gone, id, unpack(old))
  redis.call('ZADD', l.gone, dec(l.now + 600000), id)
  redis.call('PEXPIRE', l.gone, '600000')
end

-- lost says why id does not hold the lock. The write changes nothing: a replica refuses it, and what that has not heard of is not lost.
local function lost(l, id)
  redis.call('PEXPIRE', l.key, '1', 'GT')
  if mine(l, id) then
    return {'lost', l.rec.state == 'broken' and 'broken' or 'expired', dec(l.rec.token)}
  end
  if l.text and not (l.rec and l.rec.state == 'kept') then return {'lost', 'stolen', '0'} end
  return {'lost', '', '0'}
end

-- wrongKey finds which of count keys has a foreign type.
local function wrongKey(first, count)
  for i = 0, count - 1 do
    local t = redis.call('TYPE', KEYS[first + i]).ok
    if t ~= 'none' and t ~= KEY_TYPES[i + 1] then return KEYS[first + i] end
  end
  return ''
end

-- each runs f(first key, first argument, which) for the claims without an answer, and gives every claim its own answer: one claim's foreign key costs its neighbours nothing.
local function each(keys, args, f)
  for i = 1, math.floor(#KEYS / keys) do
    if not answers[i] then
      local first = (i - 1) * keys + 1
      local ok, answer = pcall(f, first, (i - 1) * args, i)
      if not ok then
        local text = type(answer) == 'table' and answer.err or tostring(answer)
        text = string.match(text, '%u%u+ .*') or text
        answer = {'error', text, string.find(text, 'WRONGTYPE', 1, true) and wrongKey(first, keys) or ''}
      end
      answers[i] = answer
    end
  end
  return answers
end
