-- What can be done for a lock that has keys on two servers, as its slot is being moved: on each of the two, and without creating a key, which would stand in the way of the
-- other half. No KEYS: they would be refused. ARGV: the record's key, then one claim as for claim, or "" and "?" to inspect.
-- Answers: granted, token, waiters: it holds already | busy, record, remaining, waiters before, 1 to queue: its place is kept, if it has one here | 1: it has given the lock, or its place, back |
-- elsewhere: nothing was done | lock, as for inspect, but with the waiters in the queue, alive or not. What is not here is empty or 0.

-- here asks for what may not be on this server.
local function here(...)
  local got = redis.pcall(...)
  if type(got) == 'table' and got.err then return false end
  return got
end

local l = {crowd = 0, key = ARGV[1], queue = ARGV[1] .. ':queue', waiters = ARGV[1] .. ':waiters'}
local mark = ARGV[3]
stamp(l)
l.text = here('GET', l.key)
if l.text then
  l.rec = parse(l.text)
  if not l.rec then return {{'error', 'FOREIGN ' .. l.key, ''}} end
  measure(l)
end

if mark == '?' then
  return {{'lock', l.text or '', l.text and l.left or 0, here('GET', l.key .. ':fence') or '0', here('ZCARD', l.queue) or 0}}
end

if mark == '>' then return {{'elsewhere'}} end

if mark == '-' or mark == '--' then
  local id, minHold, doubt = leaving(1)
  if doubt then return {{'elsewhere'}} end -- the tombstone is a key
  if not mine(l, id) then
    if here('ZREM', l.queue, id) ~= 1 then return {{'elsewhere'}} end
    here('HDEL', l.waiters, id)
    return {1}
  end
  local ms = owed(l, l.rec, minHold)
  if ms > 0 then
    keep(l, l.rec, ms) -- over what is there: a key that was removed here cannot be made again
  else
    drop(l) -- nobody is served: whoever waits asks again
  end
  return {1}
end

local c = claim(1)
local place = here('ZRANK', l.queue, c.id) or here('ZCARD', l.queue) or 0
if mine(l, c.id) and live(l) then
  l.handed = l.rec.state == 'handoff' and here('HGET', l.waiters, 'handed')
  if l.handed or l.rec.state == 'held' then
    confirm(l, c)
    return {{'granted', dec(l.rec.token), place}}
  end
end
if here('HGET', l.waiters, c.id) then
  redis.call('HSET', l.waiters, c.id, describe(l, c))
  lengthen(l.waiters, c.life + 10000)
end
if here('ZSCORE', l.queue, c.id) then lengthen(l.queue, c.life + 10000) end
return {{'busy', l.text or '', l.text and l.left or 0, place, c.queue and 1 or 0}}
