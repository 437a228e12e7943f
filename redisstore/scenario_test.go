package redisstore

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/picket-go/picket"
	"github.com/picket-go/picket/internal/redistest"
	"github.com/picket-go/picket/internal/virtualredis"
)

// A scenario is lines of "what is done -> what the script answers". Claims are single letters; tokens are T1, T2, … in the order in which they rise; remaining times are
// rounded to 50 ms, long ones to 500 ms, as a real server's clock runs on. Lines that begin with "redis" are plain commands on the lock's keys: record, fence, queue, waiters, gone.
type scenario struct {
	says  string
	lines string
}

// runScenarios runs all on a miniredis in virtual time and on a real server: the same answers must come.
func runScenarios(t *testing.T, all []scenario) {
	for _, sc := range all {
		t.Run(sc.says, func(t *testing.T) {
			t.Run("miniredis", func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { play(t, virtualredis.Start(t).Client(t), sc) })
			})
			t.Run("redis", func(t *testing.T) {
				t.Parallel()
				play(t, redistest.Shared(t).Client(t), sc)
			})
		})
	}
}

var keyNames = [...]string{"record", "fence", "queue", "waiters", "gone"}

// player runs one scenario on one server.
type player struct {
	*testing.T
	client *redis.Client
	keys   []string
	tokens []string
}

func play(t *testing.T, c *redis.Client, sc scenario) {
	s := &Store{set: settings{prefix: "lock:"}}
	p := &player{T: t, client: c, keys: s.keys(nil, t.Name()+rand.Text())}
	for line := range strings.Lines(sc.lines) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		do, want, _ := strings.Cut(line, " -> ")
		if got := p.do(strings.Fields(do)); got != want {
			t.Fatalf("%s\n got %s\nwant %s", do, got, want)
		}
	}
	p.noKeyIsForEver()
}

// noKeyIsForEver checks what holds after every script: each key has a time to live (F2).
func (p *player) noKeyIsForEver() {
	for _, key := range p.keys {
		if d, err := p.client.PTTL(p.Context(), key).Result(); err != nil || d == -1 {
			p.Errorf("%s has the time to live %v, %v", key, d, err)
		}
	}
}

func (p *player) do(words []string) string {
	name, args := words[0], words[1:]
	switch name {
	case "redis":
		return p.command(args)
	case "wait":
		d, err := time.ParseDuration(args[0])
		if err != nil {
			p.Fatal(err)
		}
		time.Sleep(d) // virtual, or a real server's clock must go on
		return ""
	case "acquire":
		return p.eval(claimScript, p.keys, claimArgs(args))
	case "release":
		return p.eval(claimScript, p.keys, leaveArgs(args, markLeaving))
	case "transfer":
		from, to, _ := strings.Cut(strings.Join(args, " "), " to ")
		return p.eval(claimScript, p.keys, append(leaveArgs(strings.Fields(from), markTransfer), claimArgs(strings.Fields(to))...))
	case "renew":
		return p.eval(renewScript, p.keys[:1], []any{id(args[0]), option(args, "ttl", "30000")})
	case "break":
		return p.eval(breakScript, p.keys, []any{p.token(args[0])})
	case "reissue":
		return p.eval(reissueScript, p.keys, []any{id(args[0]), p.above(args[1])})
	case "inspect":
		return p.eval(inspectScript, p.keys, nil)
	}
	p.Fatalf("no such step: %s", name)
	return ""
}

// id is the claim's id: 26 times its letter.
func id(letter string) string { return strings.Repeat(letter, 26) }

func option(args []string, name, or string) string {
	for _, a := range args {
		if v, ok := strings.CutPrefix(a, name+"="); ok {
			return v
		}
	}
	return or
}

func flag(args []string, name string) int {
	for _, a := range args {
		if a == name {
			return 1
		}
	}
	return 0
}

func claimArgs(args []string) []any {
	ttl, delay := millisOption(args, "ttl", "30000"), millisOption(args, "delay", "0")
	return []any{
		id(args[0]), ttl + delay, string(appendHeld(nil, ttl, delay, picket.Holder{PID: 1, Host: "h", Label: args[0]})),
		fmt.Sprintf("%d %d %s %s", delay, flag(args, "queue"), option(args, "life", "10000"), option(args, "proc", "-")),
	}
}

func millisOption(args []string, name, or string) int64 {
	n, err := strconv.ParseInt(option(args, name, or), 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

func leaveArgs(args []string, mark string) []any {
	if len(args) == 1 && mark == markLeaving {
		return []any{id(args[0]), markPlain}
	}
	return []any{id(args[0]), mark, fmt.Sprintf("%s %d", option(args, "minhold", "0"), flag(args, "doubt"))}
}

// token turns T2 into the second token that was seen.
func (p *player) token(s string) string {
	n, err := strconv.Atoi(strings.TrimPrefix(s, "T"))
	if err != nil || n > len(p.tokens) {
		p.Fatalf("no token %s", s)
	}
	if n == 0 {
		return "1"
	}
	return p.tokens[n-1]
}

// above is a token as far from the server's clock as s says.
func (p *player) above(s string) string {
	d, err := time.ParseDuration(s)
	if err != nil {
		return s
	}
	now, err := p.client.Time(p.Context()).Result()
	if err != nil {
		p.Fatal(err)
	}
	return strconv.FormatInt(now.Add(d).UnixMicro(), 10)
}

func (p *player) eval(sc *script, keys []string, args []any) string {
	r := newRequest("", "", sc, keys, args...)
	raw, err := eval(context.WithoutCancel(p.Context()), p.client, r)
	if err != nil {
		return err.Error()
	}
	all, err := answers(r, raw)
	if err != nil {
		return err.Error()
	}
	words := []string{all[0].word}
	if words[0] == "granted" && len(all[0].rest) == 1 { // the short form
		all[0].rest = append(slices.Clip(all[0].rest), 0)
	}
	for _, x := range all[0].rest {
		if w := p.show(fmt.Sprint(x)); w != "" {
			words = append(words, w)
		}
	}
	return strings.Join(words, " ")
}

// show makes a value readable and free of the time of day.
func (p *player) show(s string) string {
	if rec, ok := parseRecord(s); ok {
		return fmt.Sprintf("[%s %s %s ttl=%d delay=%d]", rec.id[:1], p.show(fmt.Sprint(rec.token)), rec.state, rec.ttl.Milliseconds(), rec.delay.Round(50*time.Millisecond).Milliseconds())
	}
	for i := len(p.keys) - 1; i >= 0; i-- { // the record's key begins all others
		s = strings.ReplaceAll(s, p.keys[i], "<"+keyNames[i]+">")
	}
	n, err := strconv.ParseInt(s, 10, 64)
	switch {
	case err != nil:
		return s
	case n > 1e12: // a token
		for i, t := range p.tokens {
			if t == s {
				return "T" + strconv.Itoa(i+1)
			}
		}
		if len(p.tokens) > 0 && p.tokens[len(p.tokens)-1] >= s {
			p.Errorf("token %s follows %s", s, p.tokens[len(p.tokens)-1])
		}
		p.tokens = append(p.tokens, s)
		return "T" + strconv.Itoa(len(p.tokens))
	case n >= 5000:
		return strconv.FormatInt((n+250)/500*500, 10)
	case n >= 50: // a remaining time
		return strconv.FormatInt((n+25)/50*50, 10)
	}
	return s
}

// command runs a plain command; words like record are the lock's keys.
func (p *player) command(words []string) string {
	args := make([]any, len(words))
	for i, w := range words {
		args[i] = w
		for n, name := range keyNames {
			if w == name {
				args[i] = p.keys[n]
			}
		}
	}
	v, err := p.client.Do(p.Context(), args...).Result()
	if err != nil && err != redis.Nil { //nolint:errorlint // go-redis returns it as it is
		return err.Error()
	}
	if v == nil {
		return "nil"
	}
	return p.show(fmt.Sprint(v))
}
