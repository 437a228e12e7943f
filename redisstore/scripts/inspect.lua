-- KEYS: the five of each lock. Changes nothing.
-- Answers of each: lock, record, remaining, last token, waiters alive | error, text, key.

local function lives(l, text)
  local w = parseWaiter(text)
  return w and l.now <= math.min(w.seen, l.now) + w.life and 1 or 0
end

-- living counts the waiters alive; one that let its hand-off lapse waits again.
local function living(l)
  local n = 0
  if l.handed and not l.text then
    n = lives(l, redis.call('HGET', l.waiters, string.sub(l.handed, 1, 26)))
  end
  if l.crowd == 0 then return n end
  local ids, texts = front(l, 0, FAR - 1)
  for i in ipairs(ids) do n = n + lives(l, texts[i]) end
  return n + math.max(0, l.crowd - #ids)
end

return each(5, 0, function(first)
  local l = look(first)
  readToken(l)
  return {'lock', l.text or '', l.text and l.left or 0, dec(l.last), living(l)}
end)
