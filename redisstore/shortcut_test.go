package redisstore

import (
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/picket-go/picket/internal/redistest"
	"github.com/picket-go/picket/internal/virtualredis"
)

const (
	// roundaboutLua stands in the place of claim_simple.lua and answers nothing: it only finds where the arguments of each claim begin.
	roundaboutLua = `
local answers, began, at, a = {}, nil, {}, 0
local words = {['-'] = 2, ['--'] = 3, ['>'] = 7}
for i = 1, #KEYS / 5 do
  at[i] = a
  a = a + (words[ARGV[a + 2]] or 4)
end
`
	// leftoverLua stands behind claim_simple.lua and tells what that has left to the rest.
	leftoverLua = `
for i = 1, #KEYS / 5 do
  if not answers[i] then redis.call('RPUSH', 'leftover', i - 1) end
end
`
)

// TestTheShortcutAnswersAsTheWholeScriptDoes does the same random things to two locks with the shortcut and without it. Virtual time stands still between the two, so that all
// answers, tokens and remaining times must be equal, and what is kept too. The claims of one call may be in each other's way: the shortcut answers before the rest, so the
// whole script is given them in that order.
func TestTheShortcutAnswersAsTheWholeScriptDoes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))) // the bubble's clock begins in 2000, when tokens had a digit less
		newPair(t, virtualredis.Start(t).Client(t), virtualredis.Start(t).Client(t)).travelAll(80, 4)
	})
}

// TestTheShortcutAnswersAsTheWholeScriptDoesOnRedis is the same on real servers. Their clocks run, so no time passes but what a history takes, and times may differ by that.
func TestTheShortcutAnswersAsTheWholeScriptDoesOnRedis(t *testing.T) {
	t.Parallel()
	p := newPair(t, redistest.Start(t).Client(t), redistest.Start(t).Client(t))
	p.runs = 800 * time.Millisecond // less than any time to live: a history ends then
	p.travelAll(50, 1)
}

// pair are two travellers who go the same way.
type pair struct {
	*testing.T
	short, whole traveller
	runs         time.Duration  // how far their clocks may run in one history
	taken        map[string]int // what the shortcut answered, by kind
}

func newPair(t *testing.T, short, whole *redis.Client) *pair {
	return &pair{
		T: t, taken: map[string]int{},
		short: traveller{player{T: t, client: short}, newScript(claimSimpleLua, leftoverLua, preludeLua, queueLua, claimLua), [2][]string{}},
		whole: traveller{player{T: t, client: whole}, newScript(roundaboutLua, preludeLua, queueLua, claimLua), [2][]string{}},
	}
}

// travelAll goes through so many histories, in which the shortcut must answer claims of each kind so often.
func (p *pair) travelAll(histories uint64, often int) {
	p.Helper()
	for seed := range histories {
		p.travel(seed)
	}
	p.Log("the shortcut answered", p.taken)
	for _, kind := range []string{
		"grant alone", "release alone", "swap alone", "swap past some", "swap past a crowd", "confirmation alone", "confirmation before some", "confirmation before a crowd",
		"one of several",
	} {
		if p.taken[kind] < often {
			p.Errorf("the shortcut answered a %s %d times, want %d for this test to mean something", kind, p.taken[kind], often)
		}
	}
}

// travel goes both ways through one history. What it prints of it are lines for a scenario.
func (p *pair) travel(seed uint64) {
	p.Helper()
	r := rand.New(rand.NewPCG(seed, 7)) //nolint:gosec // It must be repeatable.
	keys := &Store{set: settings{prefix: "lock:"}}
	for _, v := range []*traveller{&p.short, &p.whole} {
		for i := range v.locks {
			v.locks[i] = keys.keys(nil, fmt.Sprint(seed, i))
		}
		v.keys = v.locks[0]
	}
	began := time.Now()
	var history []string
	way := drawing{Rand: r, of: &p.short, running: p.runs > 0, wild: r.IntN(2) == 0}
	lines := way.arrivals()
	for n := len(lines) + 10 + r.IntN(50); len(history) < n; {
		for len(lines) == 0 {
			lines = way.next()
		}
		line := lines[0]
		lines = lines[1:]
		got, want := p.follow(line)
		if p.runs > 0 && time.Since(began) > p.runs {
			return
		}
		if !p.near(got, want) {
			p.Fatalf("seed %d, after\n\t%s\n%s\nwith the shortcut %s\nwithout it        %s", seed, strings.Join(history, "\n\t"), line, got, want)
		}
		history = append(history, line)
		// The shortcut may leave the time to live of the last token as it was for a thousand seconds: claim_simple.lua.
		for i := range p.short.locks {
			if got, want := p.short.fenceLife(i), p.whole.fenceLife(i); want-got > 1000*time.Second+p.runs {
				p.Fatalf("seed %d, after\n\t%s\nthe last token lives for %s, without the shortcut for %s", seed, strings.Join(history, "\n\t"), got, want)
			}
		}
	}
}

// numbers has places of a queue as floating-point numbers.
var numbers = regexp.MustCompile(`\d+(\.\d+)?(e\+\d+)?`)

// near reports whether a and b are equal but for times of clocks that ran.
func (p *pair) near(a, b string) bool {
	if a == b || p.runs == 0 {
		return a == b
	}
	of, other := numbers.FindAllString(a, -1), numbers.FindAllString(b, -1)
	for i := range min(len(of), len(other)) {
		n, _ := strconv.ParseFloat(of[i], 64)
		m, _ := strconv.ParseFloat(other[i], 64)
		allowed := p.runs.Milliseconds()
		switch {
		case n < 50 || m < 50: // a count
			allowed = 0
		case n > 1e15: // a token, or a place
			allowed = p.runs.Microseconds()
		}
		if math.Abs(n-m) > float64(allowed) {
			return false
		}
	}
	return numbers.ReplaceAllString(a, "") == numbers.ReplaceAllString(b, "")
}

// follow does what a line says, both ways, and returns the answers and all that the locks' keys hold then.
func (p *pair) follow(line string) (short, whole string) {
	words := strings.Fields(line)
	switch words[0] {
	case "wait":
		p.short.do(words) // time is one for both
		return "", ""
	case "redis":
		return p.short.command(words[1:]) + p.short.kept(), p.whole.command(words[1:]) + p.whole.kept()
	case "future":
		return p.short.future() + p.short.kept(), p.whole.future() + p.whole.kept()
	case "break":
		return p.short.breaks() + p.short.kept(), p.whole.breaks() + p.whole.kept()
	}
	claims := strings.Split(line, "; ")
	_, before := p.short.holder(0)
	order := make([]int, len(claims))
	for i := range order {
		order[i] = i
	}
	told := p.short.call(claims, order)
	left := p.short.leftover()
	slices.SortStableFunc(order, func(a, b int) int { return btoi(slices.Contains(left, a)) - btoi(slices.Contains(left, b)) })
	for _, i := range order[:len(claims)-len(left)] {
		p.taken[kindOf(claims, i, before, told)]++
	}
	return fmt.Sprint(told, p.short.kept()), fmt.Sprint(p.whole.call(claims, order), p.whole.kept())
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// kindOf is what the claim at i was: the first lock was in the state before.
func kindOf(claims []string, i int, before string, told []string) string {
	if len(claims) > 1 {
		return "one of several"
	}
	kind, past := strings.Fields(claims[i])[0], " before "
	switch {
	case kind == "transfer":
		kind, past = "swap", " past "
	case kind == "acquire" && before == stateHandoff:
		kind = "confirmation"
	case kind == "acquire":
		kind = "grant"
	}
	waiting := 0
	_, _ = fmt.Sscanf(told[i], "granted %d %d", new(int), &waiting)
	switch {
	case waiting == 0:
		return kind + " alone"
	case waiting < 16:
		return kind + past + "some"
	}
	return kind + past + "a crowd"
}

// intrusions are what others may do to a lock's keys. Two are not among them: the shortcut mends a PERSIST of the last token later, and it releases also over tombstones of a
// foreign type, as it needs none.
var intrusions = []string{
	"DEL record", "DEL fence", "DEL queue", "DEL waiters", "DEL gone",
	"SET record hello PX 3600000", "SET queue hello PX 3600000", "SET waiters hello PX 3600000",
	"LPUSH record x", "LPUSH fence x", "LPUSH queue x", "LPUSH waiters x",
	"PERSIST record", "PERSIST queue", "PERSIST waiters", "PEXPIRE record 1", "PEXPIRE record 3600000",
	"SET fence 1000000000000001 PX 3600000",  // of 2001
	"SET fence 2796000000123456 PX 3600000",  // of 2058
	"SET fence 9007199254740990 PX 3600000",  // the last that Lua can count to
	"SET fence 01000000000000001 PX 3600000", // a digit too many
	"SET fence 0x10000000000000 PX 3600000",  // a number to Lua, as long as a token
	"SET fence 12 PX 3600000",
	"SET fence hello PX 3600000",
}

// meddlings are intrusions that the shortcut must see where others wait.
var meddlings = []string{
	"DEL waiters", "SET waiters hello PX 3600000", "HSET waiters passed -" + id("A"), "HSET waiters handed x", "HDEL waiters handed", "HDEL waiters " + id("B"),
	"ZADD gone 99999999999999 " + id("C"),
}

var claimants = [...]string{"A", "B", "C", "D"}

// drawing draws a history: of few claims, so that they meet.
type drawing struct {
	*rand.Rand
	of      *traveller
	running bool // the clocks: nothing may expire
	wild    bool // others intrude, locks are broken or kept, claims are in doubt: so little is simple for long
}

func (d *drawing) pick(from ...string) string { return from[d.IntN(len(from))] }

// arrivals are how histories begin: with a hand-off and a swap, or with a line of waiters, in some longer than a call looks at.
func (d *drawing) arrivals() (lines []string) {
	if d.IntN(3) == 0 {
		return []string{"acquire A", "acquire B queue", "release A", "acquire B", "wait 1ms", "transfer B to C"}
	}
	lines = append(lines, "acquire A")
	for i := range [...]int{d.IntN(8), 16 + d.IntN(10)}[d.IntN(2)] {
		lines = append(lines, fmt.Sprintf("acquire %c queue life=100000", 'a'+i))
	}
	return lines
}

// next draws the next lines. If time stands still, it goes on before most calls: a token that is the time is simple only once.
func (d *drawing) next() []string {
	switch n := d.IntN(30); {
	case n < 4 && d.wild:
		if line := d.pick([][]string{intrusions, meddlings, meddlings}[d.IntN(3)]...); !d.running || line != "PEXPIRE record 1" {
			return []string{"redis " + line}
		}
	case n == 4 && d.wild:
		return []string{"break"}
	case n == 5:
		return []string{"future"}
	case n > 26 && !d.running:
		return []string{"wait " + d.pick("300ms", "1500ms", "15s", "600s", "1100s")}
	}
	line := d.call()
	if d.running || d.IntN(4) == 0 {
		return []string{line}
	}
	return []string{"wait 1ms", line}
}

// call draws claims that are sent together.
func (d *drawing) call() string {
	if d.IntN(5) > 0 {
		return d.claim(0)
	}
	claims := make([]string, 2+d.IntN(3))
	for i := range claims {
		lock := d.IntN(2)
		claims[i] = strings.Repeat("other ", lock) + d.claim(lock)
	}
	return strings.Join(claims, "; ")
}

// claim draws what somebody wants of a lock: mostly what makes sense, as it is.
func (d *drawing) claim(lock int) string {
	who := d.Perm(len(claimants))
	one, other := claimants[who[0]], claimants[who[1]]
	what := d.pick("acquire", "acquire", "release", "transfer", "transfer")
	if holder, state := d.of.holder(lock); holder != "" && d.IntN(4) > 0 {
		switch {
		case state == stateHandoff:
			one, what = holder, d.pick("acquire", "acquire", "acquire", "transfer")
		case what != "acquire":
			one = holder
		}
	}
	switch what {
	case "acquire":
		return "acquire " + d.asks(one)
	case "release":
		return "release " + d.leaves(one)
	}
	return "transfer " + d.leaves(one) + " to " + d.asks(other)
}

func (d *drawing) asks(who string) string {
	ttls, queues := []string{"", "", "", " ttl=10000", " ttl=10800000", " ttl=180000000"}, []string{"", "", " queue"}
	if !d.running {
		ttls, queues = append(ttls, " ttl=300"), append(queues, " queue life=250")
	}
	return who + d.pick(ttls...) + d.pick(queues...) + d.pick("", "", "", "", " delay=2000")
}

func (d *drawing) leaves(who string) string {
	if !d.wild {
		return who
	}
	return who + d.pick("", "", "", "", "", " minhold=5000") + d.pick("", "", "", "", " doubt")
}

// traveller follows a history by one script.
type traveller struct {
	player
	script *script
	locks  [2][]string
}

// call makes one call of claims, in this order, and returns the answer to each.
func (v *traveller) call(claims []string, order []int) []string {
	var keys []string
	var args []any
	for _, i := range order {
		claim, lock := claims[i], v.locks[0]
		if c, ok := strings.CutPrefix(claim, "other "); ok {
			claim, lock = c, v.locks[1]
		}
		keys = append(keys, lock...)
		args = append(args, wordsOf(claim)...)
	}
	all := v.answers(v.script, len(claims), keys, args...)
	if len(all) != len(claims) {
		return all
	}
	told := make([]string, len(claims))
	for n, i := range order {
		told[i] = all[n]
	}
	return told
}

// wordsOf are the arguments of a claim.
func wordsOf(line string) []any {
	words := strings.Fields(line)
	switch name, args := words[0], words[1:]; name {
	case "acquire":
		return claimArgs(args)
	case "release":
		return leaveArgs(args, markLeaving)
	}
	from, to, _ := strings.Cut(strings.Join(words[1:], " "), " to ")
	return append(leaveArgs(strings.Fields(from), markTransfer), claimArgs(strings.Fields(to))...)
}

// answers are the script's answers, not rounded as a player's.
func (v *traveller) answers(sc *script, claims int, keys []string, args ...any) (told []string) {
	r := newRequest("claim", "", sc, keys, args...)
	r.claims = claims
	raw, err := eval(v.Context(), v.client, r)
	if err != nil {
		return []string{err.Error(), "of the call"}
	}
	all, err := answers(r, raw)
	if err != nil {
		return []string{err.Error(), "of the answers"}
	}
	for _, a := range all {
		if a.word == "granted" { // nobody waits for the short form
			told = append(told, fmt.Sprint("granted ", a.number(0), " ", a.number(1)))
		} else {
			told = append(told, fmt.Sprint(a.word, " ", a.rest))
		}
	}
	return told
}

// leftover are the claims of the last call that the shortcut left to the rest.
func (v *traveller) leftover() (left []int) {
	if err := v.client.LRange(v.Context(), "leftover", 0, -1).ScanSlice(&left); err != nil {
		v.Fatal(err)
	}
	v.client.Del(v.Context(), "leftover")
	return left
}

// breaks has an operator break the first lock, whoever holds it.
func (v *traveller) breaks() string {
	rec, _ := parseRecord(v.client.Get(v.Context(), v.keys[0]).Val())
	return fmt.Sprint(v.answers(breakScript, 1, v.keys, rec.token))
}

// future has the first lock's first waiter seen at a time to come, as if the clock had stepped back.
func (v *traveller) future() string {
	for _, id := range v.client.ZRange(v.Context(), v.keys[2], 0, 0).Val() {
		if _, rest, ok := strings.Cut(v.client.HGet(v.Context(), v.keys[3], id).Val(), " "); ok {
			v.client.HSet(v.Context(), v.keys[3], id, "seen=9000000000000 "+rest)
		}
	}
	return ""
}

// holder is the letter of whose the record of a lock is, and its state.
func (v *traveller) holder(lock int) (letter, state string) {
	rec, _ := parseRecord(v.client.Get(v.Context(), v.locks[lock][0]).Val())
	return strings.TrimLeft(rec.id[:min(1, len(rec.id))], "-"), rec.state
}

// kept is what the keys hold, and for how long: but for the last token, which fenceLife is for.
func (v *traveller) kept() string {
	keys := slices.Concat(v.locks[0], v.locks[1])
	kinds := v.ask(keys, func(i int) []any { return []any{"TYPE", keys[i]} })
	lives := v.ask(keys, func(i int) []any { return []any{"PTTL", keys[i]} })
	values := v.ask(keys, func(i int) []any {
		switch kinds[i] {
		case "string":
			return []any{"GET", keys[i]}
		case "list":
			return []any{"LRANGE", keys[i], 0, -1}
		case "zset":
			return []any{"ZRANGE", keys[i], 0, -1, "WITHSCORES"}
		case "hash":
			return []any{"HGETALL", keys[i]}
		}
		return []any{"EXISTS", keys[i]}
	})
	var b strings.Builder
	for i := range keys {
		if name := keyNames[i%len(keyNames)]; kinds[i] != "none" {
			if tombs, ok := values[i].([]any); ok && name == "gone" { // two of one millisecond on one server may be of two on the other
				slices.SortFunc(tombs, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
			}
			fmt.Fprintf(&b, "\n\t%s %v", name, values[i])
			if name != "fence" {
				fmt.Fprintf(&b, " for %v", lives[i])
			}
		}
	}
	return b.String()
}

// ask sends a command for each of the keys and returns the replies.
func (v *traveller) ask(keys []string, command func(i int) []any) []any {
	p := v.client.Pipeline()
	cmds, replies := make([]*redis.Cmd, len(keys)), make([]any, len(keys))
	for i := range keys {
		cmds[i] = p.Do(v.Context(), command(i)...)
	}
	if _, err := p.Exec(v.Context()); err != nil {
		v.Fatal(err)
	}
	for i := range cmds {
		replies[i] = cmds[i].Val()
	}
	return replies
}

func (v *traveller) fenceLife(lock int) time.Duration {
	return v.client.PTTL(v.Context(), v.locks[lock][1]).Val()
}
