-- KEYS: the five of the lock. ARGV: the claim that is released as in release, then the claim that is granted as in acquire.
-- Answers: as in acquire, or lost, reason, token: then nothing was done for the second claim.

return each(5, 6, function(first, at)
  local l, c = open(first), claim(at + 2)
  stamp(l)
  local from, minHold, doubt = leaving(at)
  local rest = buried(l, c.id)
  if rest then return {'gone', rest} end
  readToken(l)
  if not mine(l, from) then
    if doubt then bury(l, from) end
    return lost(l, from)
  end
  finish(l, minHold)
  if doubt then bury(l, from) end
  if not l.text and not c.queue then
    leave(l, c.id) -- past the waiters: they are served when the Locker's local turn is over
    grant(l, c)
    purge(l)
  else
    ask(l, c)
  end
  tidy(l)
  return answer(l, c)
end)
