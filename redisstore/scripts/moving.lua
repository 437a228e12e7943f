-- Stands before a script that runs on the server that a slot is being moved to, for one lock that has no key any more on the server it comes from. KEYS: the record alone, as
-- a call with some of its keys missing is refused until the move is over. What the script would publish is not for the listeners here, who come when the slot has come: it is
-- returned with the answers, to be published where they still are.

local server, unsaid = redis, {}

local function try(f, name, ...)
  if name == 'PUBLISH' or name == 'SPUBLISH' then
    unsaid[#unsaid + 1] = {name, ...}
    return 1
  elseif name == 'EXISTS' then
    local n = 0
    for _, key in ipairs({...}) do n = n + f(name, key) end
    return n
  end
  return f(name, ...)
end

local KEYS = {KEYS[1], KEYS[1] .. ':fence', KEYS[1] .. ':queue', KEYS[1] .. ':waiters', KEYS[1] .. ':gone'}
local redis = {
  call = function(...) return try(server.call, ...) end,
  pcall = function(...) return try(server.pcall, ...) end,
}

local function whole()
