-- KEYS: the five of each claim. ARGV of each that wants a lock: id, TTL and lock delay in one, the rest of its record, and what is rarely needed, in one: lock delay, 1 to
-- queue, life of a waiter, process that listens or "-". Of each that gives one back: id, "-"; or id, "--", min hold and 1 if the claim is in doubt. Of each transfer: id, ">",
-- min hold and doubt of the claim that is released, then all of the one that is granted.
-- Answers of each: token | granted, token, waiters | busy, record, remaining, waiters before | gone, remaining | 1 | lost, reason, token | error, text, key. After lost nothing
-- was done for the second claim of a transfer.

local function acquire(first, at)
  local l, c = look(first), claim(at)
  local rest = buried(l, c.id)
  if rest then return {'gone', rest} end
  if not l.text then readToken(l) end
  if l.cut then redis.call('PEXPIRE', l.key, dec(l.left)) end
  settle(l)
  ask(l, c)
  tidy(l)
  return answer(l, c)
end

local function release(first, at)
  local l = open(first)
  local id, minHold, doubt = leaving(at)
  if l.peopled or doubt or minHold > 0 then stamp(l) end
  local held = mine(l, id)
  local answer = not held and lost(l, id)
  -- A release must not fail because nobody can be let in: then the next claim is told why.
  local passes = l.peopled and pcall(readToken, l) and pcall(mint, l)
  settle(l)
  local waited = leave(l, id)
  if held then finish(l, minHold) end
  if doubt then bury(l, id) end
  if passes then handOver(l) end
  tidy(l)
  if held or waited then return 1 end
  return answer
end

local function transfer(first, at)
  local l, c = open(first), claim(at + 3)
  stamp(l)
  local from, minHold, doubt = leaving(at)
  local rest = buried(l, c.id)
  if rest then return {'gone', rest} end
  readToken(l)
  if not mine(l, from) then
    settle(l)
    leave(l, from)
    if doubt then bury(l, from) end
    tidy(l)
    return lost(l, from)
  end
  mint(l) -- fails here, before anything is given back
  finish(l, minHold)
  if doubt then bury(l, from) end
  if not l.text and not c.queue then
    leave(l, c.id) -- past the waiters: they are served when the Locker's local turn is over, and the dead are removed then
    grant(l, c)
  else
    ask(l, c)
  end
  tidy(l)
  return answer(l, c)
end

local acts = {['-'] = release, ['--'] = release, ['>'] = transfer}

return each(5, 0, function(first, _, i)
  return (acts[ARGV[at[i] + 2]] or acquire)(first, at[i])
end)
