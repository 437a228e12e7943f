-- KEYS: the record of each claim, and nothing else: while a slot migrates, a script with some of its keys missing is refused. ARGV of each: id, TTL.
-- Answers of each: 1 | handoff: it must be confirmed by an acquire | lost, reason, token | error, text, key.

return each(1, 2, function(first, at)
  local l = {key = KEYS[first]}
  local id, ttl = ARGV[at + 1], tonumber(ARGV[at + 2])
  l.text = redis.call('GET', l.key)
  l.rec = l.text and parse(l.text) or nil
  if not mine(l, id) then return lost(l, id) end
  measure(l)
  if not live(l) then return lost(l, id) end
  local r = l.rec
  if r.state == 'handoff' then return {'handoff'} end
  local life = math.max(l.left, ttl + r.delay)
  if life > r.max or r.ttl ~= ttl then
    r.ttl = ttl
    write(l, r, life)
  elseif l.cut or life > l.left then
    redis.call('PEXPIRE', l.key, dec(life))
  end
  return 1
end)
