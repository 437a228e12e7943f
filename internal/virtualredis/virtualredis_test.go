package virtualredis_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/picket-go/picket/internal/redistest"
	"github.com/picket-go/picket/internal/virtualredis"
)

// TestWhatTheStoreTakesForGranted fails when an update of miniredis or of go-redis breaks the recipe. The name of a subtest is the assumption.
func TestWhatTheStoreTakesForGranted(t *testing.T) {
	t.Parallel()
	assume := func(name string, check func(*testing.T, *redis.Client)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { check(t, virtualredis.Start(t).Client(t)) })
		})
	}
	eval := func(t *testing.T, c *redis.Client, script string, keys ...string) string {
		t.Helper()
		got, err := c.Eval(t.Context(), script, keys).Result()
		if err != nil {
			t.Fatal(err)
		}
		switch v := got.(type) {
		case int64:
			return strconv.FormatInt(v, 10)
		default:
			return v.(string)
		}
	}

	assume("keys expire by the bubble's clock, to the millisecond", func(t *testing.T, c *redis.Client) {
		if err := c.Set(t.Context(), "k", "v", time.Hour).Err(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour - time.Millisecond)
		if ttl, err := c.PTTL(t.Context(), "k").Result(); err != nil || ttl != time.Millisecond {
			t.Errorf("PTTL = %v, %v", ttl, err)
		}
		time.Sleep(time.Millisecond)
		if n, err := c.Exists(t.Context(), "k").Result(); err != nil || n != 0 {
			t.Errorf("EXISTS = %d, %v", n, err)
		}
	})
	assume("keys expire in scripts too", func(t *testing.T, c *redis.Client) {
		if err := c.Set(t.Context(), "k", "v", time.Second).Err(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(400 * time.Millisecond)
		if got := eval(t, c, `return redis.call('PTTL', KEYS[1])`, "k"); got != "600" {
			t.Errorf("PTTL = %s", got)
		}
		time.Sleep(600 * time.Millisecond)
		if got := eval(t, c, `return tostring(redis.call('GET', KEYS[1]))`, "k"); got != "false" {
			t.Errorf("GET = %s", got)
		}
	})
	assume("TIME is the bubble's, in scripts too", func(t *testing.T, c *redis.Client) {
		for range 2 {
			time.Sleep(90*time.Minute + 7*time.Microsecond)
			want := time.Now().UnixMicro()
			if got, err := c.Time(t.Context()).Result(); err != nil || got.UnixMicro() != want {
				t.Errorf("TIME = %v, %v; want %d", got, err, want)
			}
			got := eval(t, c, `local now = redis.call('TIME'); return string.format('%.0f', now[1] * 1000000 + now[2])`)
			if got != strconv.FormatInt(want, 10) {
				t.Errorf("in a script TIME = %s, want %d", got, want)
			}
		}
	})
	assume("scripts are called by their digest once they are known", func(t *testing.T, c *redis.Client) {
		script := redis.NewScript(`return ARGV[1]`)
		if err := script.EvalSha(t.Context(), c, nil, "a").Err(); !redis.HasErrorPrefix(err, "NOSCRIPT") {
			t.Errorf("an unknown digest: %v", err)
		}
		if err := script.Eval(t.Context(), c, nil, "a").Err(); err != nil {
			t.Error(err)
		}
		if got, err := script.EvalSha(t.Context(), c, nil, "b").Text(); err != nil || got != "b" {
			t.Errorf("a known digest: %q, %v", got, err)
		}
	})
	assume("Lua matches patterns, formats large numbers and catches errors", func(t *testing.T, c *redis.Client) {
		got := eval(t, c, `
			local id, token = string.match('0123456789 token=1796965144000001 x', '^(%S+) token=(%d+)')
			local failed = redis.pcall('GET')
			return id .. ' ' .. string.format('%.0f', token + 1) .. ' ' .. type(failed.err)`)
		if want := "0123456789 1796965144000002 string"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	})
	assume("messages arrive without delay, and PUBLISH in a script counts receivers", func(t *testing.T, c *redis.Client) {
		publish := `return redis.call('PUBLISH', KEYS[1], 'hello')`
		if got := eval(t, c, publish, "ch"); got != "0" {
			t.Errorf("to nobody: %s", got)
		}
		sub := c.Subscribe(t.Context(), "ch")
		defer sub.Close()
		if _, err := sub.Receive(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		begin := time.Now()
		if got := eval(t, c, publish, "ch"); got != "1" {
			t.Errorf("to one: %s", got)
		}
		message, err := sub.ReceiveMessage(t.Context())
		if err != nil || message.Payload != "hello" || !time.Now().Equal(begin) {
			t.Errorf("%v after %v, %v", message, time.Since(begin), err)
		}
	})
	assume("a subscriber that does not read stops nobody", func(t *testing.T, c *redis.Client) {
		sub := c.Subscribe(t.Context(), "ch")
		if _, err := sub.Receive(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i := range 100 {
			if n, err := c.Publish(t.Context(), "ch", i).Result(); err != nil || n != 1 {
				t.Fatalf("PUBLISH %d = %d, %v", i, n, err)
			}
		}
		if err := sub.Close(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if n, err := c.Publish(t.Context(), "ch", "x").Result(); err != nil || n != 0 {
			t.Errorf("PUBLISH to one who has gone = %d, %v", n, err)
		}
	})
	assume("sorted sets and hashes do what a queue needs", func(t *testing.T, c *redis.Client) {
		got := eval(t, c, `
			for i = 1, 5 do
				redis.call('ZADD', KEYS[1], i, 'id' .. i)
				redis.call('HSET', KEYS[2], 'id' .. i, i)
			end
			local old = redis.call('ZRANGE', KEYS[1], '-inf', 2, 'BYSCORE', 'LIMIT', 0, 1000)
			redis.call('HDEL', KEYS[2], unpack(old))
			redis.call('ZREM', KEYS[1], unpack(old))
			redis.call('PEXPIRE', KEYS[1], 1000)
			local first = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')
			return #old .. ' ' .. first[1] .. ' ' .. first[2] .. ' ' .. redis.call('HLEN', KEYS[2]) .. ' ' .. redis.call('ZRANK', KEYS[1], 'id4')`, "z", "h")
		if want := "2 id3 3 3 1"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	})
	assume("SCAN matches escaped patterns", func(t *testing.T, c *redis.Client) {
		for _, key := range []string{"lock:{a*}", "lock:{ab}", "other"} {
			if err := c.Set(t.Context(), key, "v", 0).Err(); err != nil {
				t.Fatal(err)
			}
		}
		keys, _, err := c.Scan(t.Context(), 0, `lock:{a\*}`, 100).Result()
		if err != nil || len(keys) != 1 || keys[0] != "lock:{a*}" {
			t.Errorf("%q, %v", keys, err)
		}
	})
}

func TestOneClientIsCutOffAndTheOtherIsNot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := virtualredis.Start(t)
		p := s.Proxy(t, 1)
		away, clean := s.ClientVia(t, p), s.Client(t)
		increment := func(c *redis.Client) error { return c.Incr(t.Context(), "n").Err() }
		wantCount := func(want int) {
			t.Helper()
			if got, err := clean.Get(t.Context(), "n").Int(); got != want {
				t.Errorf("n = %d, %v; want %d", got, err, want)
			}
		}
		if err := errors.Join(increment(away), increment(clean)); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		p.BlackHole()
		ctxErr := increment(away)
		if took := time.Since(begin); ctxErr == nil || took < time.Second || took > 10*time.Second {
			t.Errorf("in a black hole: %v after %v", ctxErr, took)
		}
		if err := increment(clean); err != nil {
			t.Error(err)
		}
		wantCount(3)
		p.Heal()
		if err := increment(away); err != nil {
			t.Error(err)
		}
		wantCount(4)
	})
}

func TestFaultsKeepTheBubblesTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := virtualredis.Start(t)
		p := s.Proxy(t, 1)
		c := s.ClientVia(t, p)
		if err := c.Incr(t.Context(), "n").Err(); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		p.Next(1, redistest.Delay(redistest.Requests, 700*time.Millisecond, 700*time.Millisecond))
		p.Next(1, redistest.Delay(redistest.Replies, 200*time.Millisecond, 200*time.Millisecond))
		for _, want := range []time.Duration{700 * time.Millisecond, 900 * time.Millisecond} {
			if err := c.Incr(t.Context(), "n").Err(); err != nil || time.Since(begin) != want {
				t.Errorf("after %v: %v; want %v", time.Since(begin), err, want)
			}
		}
		p.Next(1, redistest.Drop(redistest.Replies))
		if err := c.Incr(t.Context(), "n").Err(); err != nil {
			t.Error(err) // go-redis tries again by itself, so the counter has risen twice.
		}
		if n, err := c.Get(t.Context(), "n").Int(); err != nil || n != 5 {
			t.Errorf("n = %d, %v", n, err)
		}
	})
}

// A write to a pipe whose other end is closed gives io.ErrClosedPipe, which go-redis does not try again as it does after the reset of a TCP connection.
func TestACutEndsConnectionsAndSubscriptions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := virtualredis.Start(t)
		p := s.Proxy(t, 1)
		c := s.ClientVia(t, p)
		sub := c.Subscribe(t.Context(), "ch")
		defer sub.Close()
		if _, err := sub.Receive(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := c.Incr(t.Context(), "n").Err(); err != nil {
			t.Fatal(err)
		}
		p.CutAll()
		if got, err := sub.Receive(t.Context()); err == nil {
			t.Errorf("the subscription goes on with %v", got)
		}
		_ = c.Incr(t.Context(), "n").Err() // It finds the cut.
		if err := c.Incr(t.Context(), "n").Err(); err != nil {
			t.Errorf("on a new connection: %v", err)
		}
	})
}

// synctest fails a test whose bubble still has goroutines at its end.
func TestNoGoroutineOutlivesTheBubbleWhateverIsLeftBroken(t *testing.T) {
	t.Parallel()
	faults := map[string]func(*redistest.Proxy){
		"black hole":      func(p *redistest.Proxy) { p.BlackHole() },
		"pause":           func(p *redistest.Proxy) { p.Pause() },
		"dropped request": func(p *redistest.Proxy) { p.Next(1, redistest.Drop(redistest.Requests)) },
		"dropped reply":   func(p *redistest.Proxy) { p.Next(1, redistest.Drop(redistest.Replies)) },
		"delay": func(p *redistest.Proxy) {
			p.Next(1, redistest.Delay(redistest.Requests, time.Hour, time.Hour))
			p.Next(1, redistest.Delay(redistest.Replies, time.Hour, time.Hour))
		},
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := virtualredis.Start(t)
				p := s.Proxy(t, 1)
				c := s.ClientVia(t, p)
				if err := c.Ping(t.Context()).Err(); err != nil {
					t.Fatal(err)
				}
				fault(p)
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				defer cancel()
				begin := time.Now()
				if err := c.Ping(ctx).Err(); time.Since(begin) < 100*time.Millisecond {
					t.Errorf("it does nothing: %v", err)
				}
			})
		})
	}
}
