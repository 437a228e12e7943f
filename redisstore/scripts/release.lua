-- KEYS: the five of each claim. ARGV of each: id, and "" or min hold and 1 if the claim is in doubt.
-- Answers of each: 1 | lost, reason, token | error, text, key.

return each(5, 2, function(first, at)
  local l = open(first)
  local id, minHold, doubt = leaving(at)
  if l.peopled or doubt or minHold > 0 then stamp(l) end
  local held, answer = mine(l, id), lost(l, id)
  -- A release must not fail because nobody can be let in: then the next claim is told why.
  local passes = l.peopled and pcall(readToken, l)
  settle(l)
  local waited = leave(l, id)
  if held then finish(l, minHold) end
  if doubt then bury(l, id) end
  if passes then handOver(l) end
  tidy(l)
  if held or waited then return 1 end
  return answer
end)
