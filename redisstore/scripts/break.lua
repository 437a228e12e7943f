-- KEYS: the five of the lock. ARGV: the token that is to be broken.
-- Answers: broken | free | token, the record's | kept, remaining | error, text, key.

return each(5, 1, function(first, at)
  local l = look(first)
  if not l.rec then return {'free'} end
  if dec(l.rec.token) ~= ARGV[at + 1] then return {'token', dec(l.rec.token)} end
  if l.rec.state == 'kept' then return {'kept', l.left} end
  if l.rec.state == 'handoff' then
    redis.call('HDEL', l.waiters, 'handed', l.rec.id)
  end
  l.rec.state = 'broken'
  write(l, l.rec, l.left)
  return {'broken'}
end)
