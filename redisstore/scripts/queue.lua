-- Stands after the prelude in scripts that let claims in: who waits, who is next, and the grant.
--
-- The hash of waiters has a field for each id, and two more: "handed", the id and ticket of the waiter that was handed the lock and has not confirmed, and "passed", the
-- ids of those that let a hand-off lapse, each behind "-"; behind "+" once it has asked again, behind "=" once another was served.

local WINDOW = 1000 -- for the confirmation of a hand-off
local NEAR, FAR = 16, 1000 -- how many waiters one call looks at

local function describe(l, c)
  return string.format('seen=%.0f life=%.0f ttl=%.0f proc=%s %s', l.now, c.life, c.ttl, c.proc, c.who)
end

local function parseWaiter(text)
  local seen, life, ttl, proc, who = string.match(text or '', '^seen=(%d+) life=(%d+) ttl=(%d+) proc=(%S+) (pid=.*)$')
  if not seen then return nil end
  return {seen = tonumber(seen), life = tonumber(life), ttl = tonumber(ttl), proc = proc, who = who}
end

-- alive sets a last-seen from the future to now: a clock that stepped back would keep the dead alive.
local function alive(l, id, text)
  local w = parseWaiter(text)
  if not w then return false end
  if w.seen > l.now then
    redis.call('HSET', l.waiters, id, (string.gsub(text, '^seen=%d+', 'seen=' .. dec(l.now))))
    return true
  end
  return l.now <= w.seen + w.life
end

-- lengthen never shortens: another waiter may need the key for longer.
local function lengthen(key, ms)
  redis.call('PEXPIRE', key, dec(math.max(ms, redis.call('PTTL', key))))
end

local function front(l, from, to)
  local ids = redis.call('ZRANGE', l.queue, from, to)
  if #ids == 0 then return ids, ids end
  return ids, redis.call('HMGET', l.waiters, unpack(ids))
end

-- remember keeps who is passed over.
local function remember(l, passed)
  if passed == l.passed then return end
  l.passed = passed ~= '' and passed
  if l.passed then
    redis.call('HSET', l.waiters, 'passed', passed)
  else
    redis.call('HDEL', l.waiters, 'passed')
  end
end

-- forgive ends the passing over of those that let a hand-off lapse, as another was served. Those that have not asked since get no other one: they may be dead, and the dead
-- shall cost one window each, not one for each that is served.
local function forgive(l)
  if l.passed then remember(l, (string.gsub(string.gsub(l.passed, '%+%w+ ', ''), '%-', '='))) end
end

-- pardon ends it for one that leaves: if it comes again it is new.
local function pardon(l, id)
  if l.passed then remember(l, (string.gsub(l.passed, '[-+=]' .. id .. ' ', ''))) end
end

local function leave(l, id)
  if l.crowd == 0 then return false end
  local stood = redis.call('ZREM', l.queue, id) == 1
  if stood then
    l.crowd = l.crowd - 1
    redis.call('HDEL', l.waiters, id)
    pardon(l, id)
  end
  return stood
end

-- purge removes the dead. It looks far only if there are dead near the front, so that a long line of the living costs little.
local function purge(l)
  if l.purged then return end
  l.purged = true
  for _, most in ipairs({NEAR, FAR}) do
    if l.crowd == 0 then return end
    local ids, texts = front(l, 0, most - 1)
    local dead = {}
    for i, id in ipairs(ids) do
      if not alive(l, id, texts[i]) then dead[#dead + 1] = id end
    end
    if #dead == 0 then return end
    redis.call('ZREM', l.queue, unpack(dead))
    redis.call('HDEL', l.waiters, unpack(dead))
    for _, id in ipairs(dead) do pardon(l, id) end
    l.crowd = l.crowd - #dead
  end
end

-- ahead counts those in front of id, or all if it does not wait.
local function ahead(l, id)
  if l.crowd == 0 then return 0 end
  return id and redis.call('ZRANK', l.queue, id) or l.crowd
end

-- ticket rises also when two come in one microsecond and when the clock steps back.
local function ticket(l)
  local last = redis.call('ZRANGE', l.queue, -1, -1, 'WITHSCORES')[2]
  local handed = l.handed and string.match(l.handed, ' (%d+)$') -- may come back to its place
  return math.max(l.us, last and last + 1 or 0, handed and handed + 1 or 0)
end

-- poll gives c a place at the end of the line, or keeps the one it has. A heartbeat's first write is one that needs no memory.
local function poll(l, c)
  local keep = c.life + 10000
  if l.crowd == 0 or not redis.call('ZSCORE', l.queue, c.id) then
    redis.call('ZADD', l.queue, dec(ticket(l)), c.id)
    l.crowd = l.crowd + 1
  end
  lengthen(l.queue, keep)
  redis.call('HSET', l.waiters, c.id, describe(l, c))
  lengthen(l.waiters, keep)
  if l.passed then remember(l, (string.gsub(string.gsub(l.passed, '%-' .. c.id, '+' .. c.id), '=' .. c.id .. ' ', ''))) end
end

-- settle puts a waiter back that was handed the lock and did not confirm: it may be slow and not dead, so it keeps its ticket, and others go first once.
local function settle(l)
  if l.text or not l.handed then return end
  local id, place = string.match(l.handed, '^(%w+) (%d+)$')
  redis.call('HDEL', l.waiters, 'handed')
  l.handed = false
  if not id then return end
  remember(l, (l.passed or '') .. '-' .. id .. ' ')
  redis.call('ZADD', l.queue, place, id)
  lengthen(l.queue, math.max(1000, redis.call('PTTL', l.waiters)))
  l.crowd = l.crowd + 1
end

-- unhand ends a hand-off: it was confirmed, or given up.
local function unhand(l, id)
  if not l.handed then return end
  redis.call('HDEL', l.waiters, 'handed', id)
  l.handed = false
end

local function confirm(l, c)
  local r = l.rec
  local lease = math.max(l.left - r.delay, c.ttl)
  local life = math.max(l.left, lease + c.delay)
  if r.state == 'handoff' then
    unhand(l, c.id)
    r.state, r.since = 'held', l.now -- MinHold counts from when the holder is told
  end
  r.ttl, r.delay, r.who = c.ttl, life - lease, c.who
  write(l, r, life)
  forgive(l)
end

local function grant(l, c)
  local token, life = mint(l), c.ttl + c.delay
  write(l, {id = c.id, token = token, ttl = c.ttl, delay = c.delay, since = l.now, state = 'held', who = c.who}, life)
  setToken(l, token, life)
  forgive(l)
end

-- publish tells the process that w is of, and returns how many have heard of it. On a Cluster a process says on what kind of channel it listens, and at which node. One that
-- listens where the slot was before is not counted here, but it is not gone: it will ask. So will one that we may not publish to, for which no claim must fail half-way.
local function publish(l, w, message)
  local process, kind, node = string.match(w.proc, '^(([cs]?)%w+)@?(%w*)$')
  local heard = redis.pcall(kind == 's' and 'SPUBLISH' or 'PUBLISH', l.key .. ':' .. process, message)
  if type(heard) ~= 'number' then return 1 end
  if heard > 0 or node == '' then return heard end
  local here = redis.pcall('CLUSTER', 'MYID')
  return type(here) == 'string' and string.sub(here, 1, #node) ~= node and 1 or 0
end

-- alert tells whoever is first in line now to look when the hand-off should have been confirmed: when it last asked it may have stood far back, and so ask seldom.
local function alert(l)
  local ids, texts = front(l, 0, l.passed and NEAR - 1 or 0)
  for i, id in ipairs(ids) do
    if not (l.passed and string.find(l.passed, '[-=]' .. id)) then
      local w = parseWaiter(texts[i])
      if w and w.proc ~= '-' then publish(l, w, id .. ' later') end
      return
    end
  end
end

-- offer hands the free lock to a waiter until it should have confirmed. No lock delay: nobody has worked yet.
local function offer(l, id, w)
  local token, life = mint(l), math.min(w.ttl, WINDOW)
  local place = redis.call('ZSCORE', l.queue, id)
  write(l, {id = id, token = token, ttl = w.ttl, delay = 0, since = l.now, state = 'handoff', who = w.who}, life)
  setToken(l, token, life)
  redis.call('ZREM', l.queue, id)
  redis.call('HSET', l.waiters, 'handed', id .. ' ' .. dec(tonumber(place)))
  lengthen(l.waiters, w.life + life)
  l.handed, l.crowd = id, l.crowd - 1
  if l.crowd > 0 then alert(l) end
end

-- wake tells the waiter that the lock is its own. One that listened and has hung up would not hear of it.
local function wake(l, id, w)
  return w.proc == '-' or publish(l, w, id) > 0
end

-- choose returns who is next: the first that can hear of it, but nobody that let a hand-off lapse and has not asked since, and if there are others nobody that let one lapse.
-- The caller hears of it in this answer.
local function choose(l, caller)
  local passed, spare = l.passed or '', {}
  for _, range in ipairs({{0, NEAR - 1}, {NEAR, FAR - 1}}) do
    local ids, texts = front(l, range[1], range[2])
    for i, id in ipairs(ids) do
      local w = parseWaiter(texts[i])
      local mark = w and string.match(passed, '([-+=])' .. id)
      if mark == '+' then
        spare[#spare + 1] = {id, w}
      elseif w and not mark and (id == caller or wake(l, id, w)) then
        return id, w
      end
    end
  end
  for _, s in ipairs(spare) do
    if s[1] == caller or wake(l, s[1], s[2]) then
      forgive(l)
      return s[1], s[2]
    end
  end
end

-- handOver gives a free lock to whoever is next, outright if that is the claim c that asks.
local function handOver(l, c)
  if l.text or l.crowd == 0 then return end
  purge(l)
  local id, w = choose(l, c and c.id)
  if not id then return end
  if c and id == c.id then
    leave(l, id)
    grant(l, c)
  else
    offer(l, id, w)
  end
end

-- tidy removes what nobody needs.
local function tidy(l)
  if l.peopled and l.crowd == 0 and not l.handed then redis.call('DEL', l.waiters) end
end

local function claim(at)
  local delay, queue, life, proc = string.match(ARGV[at + 4], '^(%d+) ([01]) (%d+) (%S+)$')
  return {id = ARGV[at + 1], ttl = tonumber(ARGV[at + 2]) - delay, delay = tonumber(delay), queue = queue == '1',
    life = tonumber(life), proc = proc, who = string.match(ARGV[at + 3], 'pid=.*')}
end

local function leaving(at)
  if ARGV[at + 2] == '-' then return ARGV[at + 1], 0, false end
  local minHold, doubt = string.match(ARGV[at + 3], '^(%d+) ([01])$')
  return ARGV[at + 1], tonumber(minHold or 0), doubt == '1'
end

-- answer is what the claim c is told.
local function answer(l, c)
  if mine(l, c.id) and live(l) then return {'granted', dec(l.rec.token), ahead(l)} end
  return {'busy', l.text or '', l.text and l.left or 0, ahead(l, c.id)}
end

-- ask is one attempt of c at a lock that was read and settled.
local function ask(l, c)
  if mine(l, c.id) and live(l) then return confirm(l, c) end
  if c.queue and (l.text or l.crowd > 0) then
    poll(l, c)
  else
    leave(l, c.id)
  end
  purge(l)
  handOver(l, c)
  if not l.text then grant(l, c) end
end

-- owed is what is left of the min hold when the record r is given back; it does not count for a hand-off, as nobody has worked yet.
local function owed(l, r, minHold)
  return minHold > 0 and r.state ~= 'handoff' and math.min(r.since + minHold - l.now, minHold) or 0
end

-- keep makes r a record that has no id, so that no late renewal or retry takes it for its own.
local function keep(l, r, ms)
  r.id, r.state, r.delay = NOBODY, 'kept', 0
  write(l, r, ms)
end

-- finish gives the lock back: at once, or when the rest of the min hold is over.
local function finish(l, minHold)
  local r = l.rec
  drop(l) -- before anything that needs memory
  if r.state == 'handoff' then return unhand(l, r.id) end
  local ms = owed(l, r, minHold)
  if ms > 0 then keep(l, r, ms) end
end
