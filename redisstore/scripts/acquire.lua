-- KEYS: the five of each claim. ARGV of each: id, TTL and lock delay in one, the rest of its record, and what is rarely needed, in one: lock delay, 1 to queue, life of a
-- waiter, process that listens or "-".
-- Answers of each: token | granted, token, waiters | busy, record, remaining, waiters before | gone, remaining | error, text, key.

return each(5, 4, function(first, at)
  local l, c = look(first), claim(at)
  local rest = buried(l, c.id)
  if rest then return {'gone', rest} end
  if not l.text then readToken(l) end
  if l.cut then redis.call('PEXPIRE', l.key, dec(l.left)) end
  settle(l)
  ask(l, c)
  tidy(l)
  return answer(l, c)
end)
