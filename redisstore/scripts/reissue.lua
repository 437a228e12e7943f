-- KEYS: the five of the lock. ARGV: id, the token to be above.
-- Answers: reissued, token, waiters | past | far | lost, reason, token | error, text, key.

local REACH = 315360000000000 -- ten years

return each(5, 2, function(first, at)
  local l = look(first)
  local id, above = ARGV[at + 1], tonumber(ARGV[at + 2])
  if not mine(l, id) or not live(l) then return lost(l, id) end
  readToken(l)
  if above <= l.us then return {'past'} end
  if above > l.us + REACH then return {'far'} end
  l.rec.token = math.max(l.last, above) + 1
  local max = l.rec.max
  write(l, l.rec, l.left)
  setToken(l, l.rec.token, max)
  return {'reissued', dec(l.rec.token), l.crowd}
end)
