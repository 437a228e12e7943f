package picket_test

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

const (
	preludeLua     = "redisstore/scripts/prelude.lua"
	queueLua       = "redisstore/scripts/queue.lua"
	claimLua       = "redisstore/scripts/claim.lua"
	claimSimpleLua = "redisstore/scripts/claim_simple.lua"
	renewLua       = "redisstore/scripts/renew.lua"
	renewHeldLua   = "redisstore/scripts/renew_held.lua"
)

// luaMutants are the rules of DESIGN 3.1 to 3.7 that the scripts of redisstore keep.
var luaMutants = []mutant{
	{
		"the same claim gets its token by a read, and no time", "3.1",
		[]edit{{queueLua, "  write(l, r, life)\n  forgive(l)\n", "  l.text = compose(r)\n  redis.call('SET', l.key, l.text, 'KEEPTTL')\n  forgive(l)\n"}},
		[]string{unfounded, twoTold},
		"",
	},
	{
		"an undone claim's late request is let in", "3.1",
		[]edit{
			{preludeLua, "  return ends and tonumber(ends) > l.now and tonumber(ends) - l.now", "  return false"},
			{claimSimpleLua, "call('EXISTS', keys[k], keys[k + 2], keys[k + 3], keys[k + 4])", "call('EXISTS', keys[k], keys[k + 2], keys[k + 3])"},
		},
		[]string{ghost},
		"",
	},
	{
		"a release in doubt leaves no tombstone", "3.1",
		[]edit{{preludeLua, "  redis.call('ZADD', l.gone, dec(l.now + 600000), id)\n", ""}},
		[]string{ghost},
		"",
	},
	{
		"a transfer in doubt leaves no tombstone", "3.1",
		[]edit{{claimLua, "  finish(l, minHold)\n  if doubt then bury(l, from) end\n", "  finish(l, minHold)\n"}},
		[]string{ghost},
		"late swaps",
	},
	{
		"a transfer in doubt that finds nothing leaves no tombstone", "3.1",
		[]edit{{claimLua, "    if doubt then bury(l, from) end\n    tidy(l)\n    return lost", "    tidy(l)\n    return lost"}},
		[]string{ghost},
		"",
	},
	{
		"a tombstone lives for a second", "3.1",
		[]edit{{preludeLua, "dec(l.now + 600000)", "dec(l.now + 1000)"}},
		[]string{ghost},
		"",
	},
	{
		"the same claim sets the time that is left, and may shorten it", "3.2",
		[]edit{{
			queueLua, "  local lease = math.max(l.left - r.delay, c.ttl)\n  local life = math.max(l.left, lease + c.delay)\n",
			"  local lease = c.ttl\n  local life = lease + c.delay\n",
		}},
		[]string{unfounded, twoTold},
		"late",
	},
	{
		"a renewal sets the time that is left, and may shorten it", "3.2",
		[]edit{{renewLua, "  local life = math.max(l.left, ttl + r.delay)\n  if life > r.max or r.ttl ~= ttl then", "  local life = ttl + r.delay\n  if true then"}},
		[]string{unfounded, twoTold},
		"",
	},
	{
		"a quick renewal cuts a longer lease", "3.2",
		[]edit{{renewHeldLua, " and max == ttl then", " then"}},
		[]string{unfounded, twoTold},
		"late",
	},
	{
		"what lengthens the key does not lengthen its max", "3.2",
		[]edit{{preludeLua, "  r.max = life\n", "  r.max = math.min(r.max or life, life)\n"}},
		[]string{unfounded, twoTold},
		"",
	},
	{
		"more time than max is not cut", "3.2",
		[]edit{{preludeLua, "  l.cut = left < 0 or left > l.rec.max\n", "  l.cut = left < 0\n"}},
		[]string{ghost, stuck},
		"steps",
	},
	{
		"a renewal creates the record", "3.3",
		[]edit{{
			renewLua, "  if not mine(l, id) then return lost(l, id) end\n",
			"  if not l.text then redis.call('SET', l.key, id .. ' token=1 since=1 ttl=' .. ttl .. ' max=' .. ttl .. ' delay=0 state=held pid=1 host=h label=', 'PX', dec(ttl)); return 1 end\n  if not mine(l, id) then return lost(l, id) end\n",
		}},
		[]string{tokenOrder, ghost},
		"",
	},
	{
		"a record that is kept for its MinHold is still its claim's", "3.5",
		[]edit{{queueLua, "  r.id, r.state, r.delay = NOBODY, 'kept', 0", "  r.state, r.delay = 'held', 0"}},
		[]string{ghost},
		"",
	},
	{
		"a lease in its lock delay is renewed", "3.5",
		[]edit{{preludeLua, " and l.left > l.rec.delay end", " end"}},
		[]string{notItsOwn},
		"delays late",
	},
	{
		"a late release does not end the lock delay", "3.5",
		[]edit{{claimLua, "local held = mine(l, id)", "local held = mine(l, id) and (stamp(l) or measure(l) or live(l))"}, {claimSimpleLua, "'0', '25') == id", "'0', '25') == id and find(pcall('GET', keys[k]), ' delay=0 ', 1, true)"}},
		[]string{ghost},
		"delays",
	},
	{
		"a hand-off that nobody confirmed has a lock delay", "3.5",
		[]edit{{queueLua, "ttl = w.ttl, delay = 0, since = l.now, state = 'handoff', who = w.who}, life)", "ttl = w.ttl, delay = 500, since = l.now, state = 'handoff', who = w.who}, life + 500)"}},
		[]string{longWindow},
		"",
	},
	{
		"ids are compared by their beginning", "4.1",
		[]edit{{preludeLua, "l.rec ~= nil and l.rec.id == id end", "l.rec ~= nil and string.sub(l.rec.id, 1, 1) == string.sub(id, 1, 1) end"}},
		[]string{notItsOwn, unfounded, twoTold, ghost, tokenOrder},
		"",
	},
	{
		"a release is for anybody", "3.5",
		[]edit{{claimLua, "local held = mine(l, id)", "local held = l.rec ~= nil"}},
		[]string{notItsOwn},
		"",
	},
	{
		"a quick release is for anybody", "3.5",
		[]edit{{claimSimpleLua, "pcall('GETRANGE', keys[k], '0', '25') == id", "pcall('EXISTS', keys[k]) == 1"}},
		[]string{notItsOwn},
		"late",
	},
	{
		"a transfer is for anybody", "3.6",
		[]edit{{claimLua, "  if not mine(l, from) then", "  if not l.rec then"}, {claimSimpleLua, " or string.find(text, ARGV[a], 1, true) ~= 1", ""}},
		[]string{notItsOwn},
		"swaps",
	},
	{
		"a token is the next number", "3.7", // the last token outlives any run of the model
		[]edit{{preludeLua, "  local token = math.max(l.last + 1, l.us)\n", "  local token = l.last + 1\n"}},
		[]string{tokenOrder},
		"",
	},
	{
		"a token is the time alone", "3.7",
		[]edit{
			{preludeLua, "  local token = math.max(l.last + 1, l.us)\n", "  local token = l.us\n"},
			{claimSimpleLua, "#last == #token and last < token and not find", "not find"},
		},
		[]string{tokenOrder},
		"steps",
	},
	{
		"a hand-off has the token of the one before", "3.6",
		[]edit{{queueLua, "  local token, life = mint(l), math.min(w.ttl, WINDOW)\n", "  local token, life = l.last, math.min(w.ttl, WINDOW)\n"}},
		[]string{tokenOrder},
		"",
	},
	{
		"a swap has the token of the one before", "3.6",
		[]edit{{claimLua, "    grant(l, c)\n  else\n", "    write(l, {id = c.id, token = l.last, ttl = c.ttl, delay = c.delay, since = l.now, state = 'held', who = c.who}, c.ttl + c.delay)\n  else\n"}},
		[]string{tokenOrder},
		"",
	},
	{
		"a quick grant has the token of the one before", "3.7",
		[]edit{{
			claimSimpleLua, "          if pcall('SET', keys[k], id .. stamps ..",
			"          token = last or token\n          stamps = ' token=' .. token .. ' since=' .. now .. ' '\n          if pcall('SET', keys[k], id .. stamps ..",
		}},
		[]string{tokenOrder},
		"",
	},
	{
		"a quick confirmation is for anybody", "3.6",
		[]edit{{claimSimpleLua, " or string.find(text, id, 1, true) ~= 1", ""}},
		[]string{notItsOwn, twoTold, unfounded},
		"",
	},
	{
		"a quick confirmation gives no time", "3.1",
		[]edit{{claimSimpleLua, "'PX', ttl)", "'KEEPTTL')"}},
		[]string{unfounded, twoTold},
		"",
	},
	{
		"a quick confirmation leaves the mark of the hand-off", "3.6",
		[]edit{{claimSimpleLua, "call('HDEL', KEYS[k + 3], 'handed', id) else call('DEL', KEYS[k + 3]) end", "call('HDEL', KEYS[k + 3], id) end"}},
		[]string{ghost, outOfOrder},
		"",
	},
	{
		"a hand-off waits for its confirmation for long", "3.6",
		[]edit{{queueLua, "math.min(w.ttl, WINDOW)", "w.ttl * 4"}},
		[]string{longWindow},
		"",
	},
	{
		"a hand-off may last longer than the TTL", "3.6",
		[]edit{{queueLua, "math.min(w.ttl, WINDOW)", "WINDOW"}},
		[]string{longWindow},
		"",
	},
	{
		"TryAcquire passes those who wait", "3.6",
		[]edit{{queueLua, "  handOver(l, c)\n  if not l.text", "  if not l.text and not c.queue then grant(l, c) end\n  handOver(l, c)\n  if not l.text"}},
		[]string{outOfOrder},
		"",
	},
	{
		"a free key is granted without a look at the queue", "3.6",
		[]edit{{claimSimpleLua, "call('EXISTS', keys[k], keys[k + 2], keys[k + 3], keys[k + 4])", "call('EXISTS', keys[k], keys[k + 4])"}},
		[]string{outOfOrder, ghost},
		"kills",
	},
	{
		"a release hands over to nobody", "3.6",
		[]edit{{claimLua, "  if passes then handOver(l) end\n", ""}},
		[]string{leftLying},
		"",
	},
	{
		"a claim that leaves the queue of a free key hands over to nobody", "3.6",
		[]edit{{claimLua, "if passes then handOver(l) end", "if passes and held then handOver(l) end"}},
		[]string{leftLying},
		"",
	},
	{
		"a waiter that asks as it is served is not granted outright", "3.6",
		[]edit{{queueLua, "  if c and id == c.id then\n", "  if false then\n"}},
		[]string{unfounded, twoTold, longWindow},
		"",
	},
	{
		"a busy answer does not name the waiter that was just served", "3.6",
		[]edit{{claimLua, "  settle(l)\n  ask(l, c)\n", "  settle(l)\n  local free = not l.text\n  ask(l, c)\n  if free and not mine(l, c.id) then return {'busy', '', 0, 0} end\n"}},
		[]string{wrongName},
		"",
	},
	{
		"an acquire hands over to nobody but the asker", "3.6",
		[]edit{{
			queueLua, "  handOver(l, c)\n  if not l.text then grant(l, c) end",
			"  if not l.text and (l.crowd == 0 or redis.call('ZRANK', l.queue, c.id) == 0) then leave(l, c.id); grant(l, c) end",
		}},
		[]string{leftLying},
		"",
	},
	{
		"a hand-off that lapsed is a death", "3.6",
		[]edit{{queueLua, "  redis.call('ZADD', l.queue, place, id)\n", "  if true then return end\n"}},
		[]string{outOfOrder, leftLying},
		"",
	},
	{
		"a waiter that let a hand-off lapse is not passed over", "3.6",
		[]edit{{queueLua, "'%-' .. c.id, '+' .. c.id), '=' .. c.id .. ' ', '')", "'[-=]' .. c.id .. ' ', ''), '', '')"}},
		[]string{outOfOrder},
		"",
	},
	{
		"a waiter that let a hand-off lapse is passed over for good", "3.6",
		[]edit{{queueLua, "string.gsub(l.passed, '%+%w+ ', '')", "l.passed"}},
		[]string{outOfOrder},
		"",
	},
	{
		"a waiter that let a hand-off lapse gets another before it has asked", "3.6",
		[]edit{{queueLua, "      if mark == '+' then\n", "      if mark then\n"}},
		[]string{toTheDead},
		"",
	},
	{
		"a hand-off does not tell the next in line", "3.6",
		[]edit{{queueLua, "  if l.crowd > 0 then alert(l) end\n", ""}},
		[]string{stuck},
		"wakes",
	},
	{
		"a waiter that let a hand-off lapse goes to the back", "3.6",
		[]edit{{queueLua, "  redis.call('ZADD', l.queue, place, id)\n", "  redis.call('ZADD', l.queue, dec(ticket(l)), id)\n"}},
		[]string{outOfOrder},
		"",
	},
	{
		"a waiter that has hung up is handed the lock all the same", "3.6",
		[]edit{{queueLua, "publish(l, w, id) > 0", "publish(l, w, id) >= 0"}},
		[]string{toTheDead},
		"kills wakes",
	},
	{
		"a waiter that does not listen is passed over", "3.6",
		[]edit{{queueLua, "return w.proc == '-' or ", "return "}},
		[]string{leftLying, outOfOrder},
		"",
	},
	{
		"nobody is woken", "3.6",
		[]edit{{queueLua, "publish(l, w, id) > 0", "redis.call('PUBSUB', 'NUMSUB', l.key .. ':' .. w.proc)[2] > 0"}},
		[]string{stuck},
		"wakes",
	},
	{
		"the dead stay in the queue", "3.6",
		[]edit{{queueLua, "    if #dead == 0 then return end\n", "    if true then return end\n"}},
		[]string{toTheDead, stuck, ghost},
		"",
	},
	{
		"a last-seen from the future stays", "3.6",
		[]edit{{queueLua, "  if w.seen > l.now then\n", "  if false then\n"}},
		[]string{toTheDead},
		"steps",
	},
	{
		"the dead are purged from the front only", "3.6",
		[]edit{{queueLua, "  for _, most in ipairs({NEAR, FAR}) do\n", "  for _, most in ipairs({NEAR}) do\n"}},
		[]string{toTheDead, stuck},
		"",
	},
	{
		"the living are purged", "3.6",
		[]edit{{queueLua, "  return l.now <= w.seen + w.life\n", "  return l.now <= w.seen + 2000\n"}},
		[]string{outOfOrder, leftLying},
		"",
	},
	{
		"a ticket is the time alone", "3.6", // the model would have to let two poll in one microsecond
		[]edit{{queueLua, "math.max(l.us, last and last + 1 or 0", "math.max(l.us, 0"}},
		[]string{outOfOrder},
		"steps",
	},
	{
		"a ticket does not rise past that of a waiter that was handed the lock", "3.6",
		[]edit{{queueLua, "handed and handed + 1 or 0)", "0)"}},
		[]string{outOfOrder},
		"",
	},
}

// redisMutants are rules of redisstore that its Go code keeps.
var redisMutants = []mutant{
	{
		"a call that may have left counts as one that has not", "3.1",
		[]edit{{"redisstore/failure.go", "left: left, unsent: neverSent(err)}", "left: left, unsent: true}"}},
		[]string{ghost, orphan},
		"late",
	},
	{
		"a claim whose caller leaves was never sent", "3.1",
		[]edit{
			{"redisstore/entry.go", "\tif !e.sent {\n", "\tif true {\n"},
			{"redisstore/lane.go", "\tif !e.sent {\n", "\tif true {\n"},
		},
		[]string{ghost, orphan},
		"",
	},
	{
		"go-redis repeats what had no answer", "3.1",
		[]edit{ // a client that is taken as it is has retries of its own
			{"redisstore/script.go", "func (once) NoRetry() bool { return true }", "func (once) NoRetry() bool { return false }"},
			{"redisstore/node.go", "	o.MaxRetries = 0", "	o.MaxRetries = 3"},
		},
		[]string{falseLoss},
		"links",
	},
}

// redisMutantRuns is mutantRuns for TestRedisModel, whose runs take ten times as long. Here no mutant needs more than 13 on average.
const redisMutantRuns = 300

// switchable makes a build of redisstore in which one text of the scripts after the other can be replaced, by the environment: a build for each mutant would take longer than
// all runs together.
var switchable = []edit{
	{"redisstore/script.go", "func newScript(parts ...string) *script {\n", "func newScript(parts ...string) *script {\n\tmutate(parts)\n"},
	{"redisstore/mutate.go", "", `package redisstore

import (
	"encoding/json"
	"os"
	"strings"
)

var edits = func() (all []struct{ Old, New string }) {
	if err := json.Unmarshal([]byte(os.Getenv("LUA_MUTANT")), &all); err != nil {
		panic(err)
	}
	return all
}()

var done = map[string]bool{}

func mutate(parts []string) {
	for i := range parts {
		for _, e := range edits {
			if strings.Contains(parts[i], e.Old) {
				done[e.Old] = true
				parts[i] = strings.Replace(parts[i], e.Old, e.New, 1)
			}
		}
	}
}

func init() {
	for _, e := range edits {
		if !done[e.Old] {
			panic("no script has this as it stands in its file: " + e.Old)
		}
	}
}
`},
}

// TestTheRedisModelCatchesEveryRuleSwitchedOff is TestTheModelCatchesEveryRuleSwitchedOff for redisstore.
func TestTheRedisModelCatchesEveryRuleSwitchedOff(t *testing.T) {
	slow(t)
	model := build(t, overlay(t, switchable...), redisModelFiles)
	for _, m := range luaMutants {
		t.Run(m.rule, func(t *testing.T) {
			t.Parallel()
			edited(t, m.edits)
			building <- struct{}{}
			defer func() { <-building }()
			m.caught(t, m.switched(t, model, m.plan(redisMutantRuns)))
		})
	}
	t.Run("nothing is switched off", func(t *testing.T) { // without the race detector the model makes ten times as many runs
		t.Parallel()
		building <- struct{}{}
		defer func() { <-building }()
		test := mutant{}.switched(t, model, []string{"-model.runs=30"})
		test.Env = append(test.Env, oneCore...)
		if out, err := test.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, last(string(out)))
		}
	})
	for _, m := range redisMutants {
		t.Run(m.rule, func(t *testing.T) {
			t.Parallel()
			m.built(t, "TestRedisModel", redisMutantRuns, redisModelFiles)
		})
	}
}

// switched runs the model in a switchable build.
func (m mutant) switched(t *testing.T, model string, plan []string) *exec.Cmd {
	t.Helper()
	edits := []map[string]string{}
	for _, e := range m.edits {
		edits = append(edits, map[string]string{"Old": e.old, "New": e.new})
	}
	b, err := json.Marshal(edits)
	if err != nil {
		t.Fatal(err)
	}
	args := append([]string{"-test.timeout=5m", "-test.v", "-test.run=^TestRedisModel$"}, plan...)
	test := exec.CommandContext(t.Context(), model, args...)
	test.Env = append(test.Environ(), "LUA_MUTANT="+string(b))
	return test
}

// build builds the tests in files.
func build(t *testing.T, overlay string, files []string) (binary string) {
	t.Helper()
	binary = filepath.Join(t.TempDir(), "model.test")
	out, err := exec.CommandContext(t.Context(), "go", slices.Concat([]string{"test", "-c", "-o", binary, "-overlay", overlay}, lean, files)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return binary
}
