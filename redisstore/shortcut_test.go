package redisstore

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/picket-go/picket/internal/virtualredis"
)

// roundaboutLua stands in the place of claim_simple.lua and answers nothing: it only finds where the arguments of each claim begin.
const roundaboutLua = `
local answers, began, at, a = {}, nil, {}, 0
local words = {['-'] = 2, ['--'] = 3, ['>'] = 7}
for i = 1, #KEYS / 5 do
  at[i] = a
  a = a + (words[ARGV[a + 2]] or 4)
end
`

// TestTheShortcutAnswersAsTheWholeScriptDoes does the same random things to one lock with the shortcut and without it. Virtual time stands still between the two, so that all
// answers, tokens and remaining times must be equal, and what is kept too.
func TestTheShortcutAnswersAsTheWholeScriptDoes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))) // the bubble's clock begins in 2000, when tokens had a digit less
		short := traveller{player{T: t, client: virtualredis.Start(t).Client(t)}, claimScript}
		whole := traveller{player{T: t, client: virtualredis.Start(t).Client(t)}, newScript(roundaboutLua, preludeLua, queueLua, claimLua)}
		keys := &Store{set: settings{prefix: "lock:"}}
		for seed := range uint64(50) {
			name := strconv.FormatUint(seed, 10)
			short.keys, whole.keys = keys.keys(nil, name), keys.keys(nil, name)
			travel(t, seed, &short, &whole)
		}
	})
}

// travel goes both ways through one history. What it prints of it are lines for a scenario.
func travel(t *testing.T, seed uint64, short, whole *traveller) {
	r := rand.New(rand.NewPCG(seed, 7)) //nolint:gosec // It must be repeatable.
	var history []string
	for range 3 + r.IntN(12) {
		line := drawLine(r)
		if d, ok := strings.CutPrefix(line, "wait "); ok {
			short.do([]string{"wait", d}) // time is one for both
		} else if got, want := short.follow(line), whole.follow(line); got != want {
			t.Fatalf("seed %d, after\n\t%s\n%s\nwith the shortcut %s\nwithout it        %s", seed, strings.Join(history, "\n\t"), line, got, want)
		}
		history = append(history, line)
		// The shortcut may leave the time to live of the last token as it was for a thousand seconds: claim_simple.lua.
		if got, want := short.fenceLife(), whole.fenceLife(); want-got > 1000*time.Second {
			t.Fatalf("seed %d, after\n\t%s\nthe last token lives for %s, without the shortcut for %s", seed, strings.Join(history, "\n\t"), got, want)
		}
	}
}

// intrusions are what others may do to a lock's keys. Two are not among them: the shortcut mends a PERSIST of the last token later, and it releases also over tombstones of a
// foreign type, as it needs none.
var intrusions = []string{
	"DEL record", "DEL fence", "DEL queue", "DEL waiters", "DEL gone",
	"SET record hello PX 3600000", "SET queue hello PX 3600000", "SET waiters hello PX 3600000",
	"LPUSH record x", "LPUSH fence x", "LPUSH queue x", "LPUSH waiters x",
	"PERSIST record", "PERSIST queue", "PERSIST waiters", "PEXPIRE record 1",
	"SET fence 1000000000000001 PX 3600000",  // of 2001
	"SET fence 2796000000123456 PX 3600000",  // of 2058
	"SET fence 9007199254740990 PX 3600000",  // the last that Lua can count to
	"SET fence 01000000000000001 PX 3600000", // a digit too many
	"SET fence 0x10000000000000 PX 3600000",  // a number to Lua, as long as a token
	"SET fence 12 PX 3600000",
	"SET fence hello PX 3600000",
}

// drawLine draws the next line of a history: of few claims, so that they meet.
func drawLine(r *rand.Rand) string {
	pick := func(from ...string) string { return from[r.IntN(len(from))] }
	asks := func(who string) string {
		return who + pick(" ttl=1000", " ttl=10000", " ttl=10800000", " ttl=180000000") + pick("", "", " queue") + pick("", "", "", " delay=2000")
	}
	leaves := func(who string) string {
		return who + pick("", "", "", " minhold=5000") + pick("", "", "", "", "", " doubt")
	}
	switch who := r.Perm(3); r.IntN(10) {
	case 0, 1, 2, 3:
		return "acquire " + asks(claimants[who[0]])
	case 4, 5, 6:
		return "release " + leaves(claimants[who[0]])
	case 7:
		return "transfer " + leaves(claimants[who[0]]) + " to " + asks(claimants[who[1]])
	case 8:
		return "wait " + pick("1ms", "1500ms", "15s", "600s", "1100s")
	}
	return "redis " + intrusions[r.IntN(len(intrusions))]
}

var claimants = [...]string{"A", "B", "C"}

// traveller follows a history by one script.
type traveller struct {
	player
	script *script
}

// follow does what a line says and returns the answer and all that the lock's keys hold then.
func (v *traveller) follow(line string) string {
	words := strings.Fields(line)
	name, args := words[0], words[1:]
	switch name {
	case "acquire":
		return v.answer(claimArgs(args)) + v.kept()
	case "release":
		return v.answer(leaveArgs(args, markLeaving)) + v.kept()
	case "transfer":
		from, to, _ := strings.Cut(strings.Join(args, " "), " to ")
		return v.answer(append(leaveArgs(strings.Fields(from), markTransfer), claimArgs(strings.Fields(to))...)) + v.kept()
	}
	return v.command(args) + v.kept()
}

// answer is the script's answer, not rounded as a player's.
func (v *traveller) answer(args []any) string {
	r := newRequest("claim", "", v.script, v.keys, args...)
	raw, err := eval(v.Context(), v.client, r)
	if err != nil {
		return err.Error()
	}
	all, err := answers(r, raw)
	if err != nil {
		return err.Error()
	}
	if a := all[0]; a.word == "granted" { // nobody waits for the short form
		return fmt.Sprint("granted ", a.number(0), " ", a.number(1))
	}
	return fmt.Sprint(all[0].word, " ", all[0].rest)
}

// kept is what the keys hold, and for how long: but for the last token, which fenceLife is for.
func (v *traveller) kept() string {
	var b strings.Builder
	for i, key := range v.keys {
		kind := v.client.Type(v.Context(), key).Val()
		read, ok := map[string][]any{"string": {"GET", key}, "list": {"LRANGE", key, 0, -1}, "zset": {"ZRANGE", key, 0, -1, "WITHSCORES"}, "hash": {"HGETALL", key}}[kind]
		if !ok {
			continue
		}
		value, err := v.client.Do(v.Context(), read...).Result()
		fmt.Fprintf(&b, "\n\t%s %v %v", keyNames[i], value, err)
		if i != 1 {
			fmt.Fprintf(&b, " for %s", v.client.PTTL(v.Context(), key).Val())
		}
	}
	return b.String()
}

func (v *traveller) fenceLife() time.Duration { return v.client.PTTL(v.Context(), v.keys[1]).Val() }
