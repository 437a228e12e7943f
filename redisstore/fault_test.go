package redisstore_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/picket-go/picket"
	"github.com/picket-go/picket/internal/redistest"
)

// acquired is a lease that must be granted. A machine that is busy may be slow to answer, which is no failure.
func acquired(t testing.TB, l *picket.Locker, key string) *picket.Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	lease, err := l.Acquire(ctx, key)
	for errors.Is(err, picket.ErrUnavailable) && ctx.Err() == nil {
		lease, err = l.Acquire(ctx, key)
	}
	if err != nil {
		t.Fatalf("Acquire(%q) = %v", key, err)
	}
	return lease
}

// lostIn waits until the lease's context ends, and returns why.
func lostIn(t testing.TB, lease *picket.Lease, d time.Duration) *picket.LostError {
	t.Helper()
	ctx := lease.Context(t.Context())
	select {
	case <-ctx.Done():
	case <-time.After(d):
		t.Fatalf("the holder of %q is not told of its loss in %v", lease.Key(), d)
	}
	lost, ok := errors.AsType[*picket.LostError](context.Cause(ctx))
	if !ok {
		t.Fatalf("the context of %q ended with %v, want a *LostError", lease.Key(), context.Cause(ctx))
	}
	return lost
}

// renewals counts the renewals of Lockers that have it as an observer.
type renewals struct{ n atomic.Int64 }

func (r *renewals) option() picket.Option {
	return picket.WithObserver(picket.Observer{RenewEnd: func(e picket.RenewEvent) { r.n.Add(int64(e.Renewed)) }})
}

// await waits for so many more.
func (r *renewals) await(t testing.TB, more int64, d time.Duration) {
	t.Helper()
	want := r.n.Load() + more
	if !eventually(d, func() bool { return r.n.Load() >= want }) {
		t.Errorf("%d of %d renewals in %v", r.n.Load()-want+more, more, d)
	}
}

// TestWhatTheServerForgetsTheHolderLearnsAndTokensStillRise: FLUSHALL, a key deleted or overwritten by hand, a restart without data (GL-25, F1).
func TestWhatTheServerForgetsTheHolderLearnsAndTokensStillRise(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	c := client(t, server)
	var renewed renewals
	holder := locker(t, store(t, c), picket.WithTTL(600*time.Millisecond), renewed.option())
	other := locker(t, store(t, client(t, server)))
	for _, tt := range []struct {
		name   string
		do     func()
		reason []picket.Reason
	}{
		{"FLUSHALL", func() { c.FlushAll(t.Context()) }, []picket.Reason{picket.ReasonDeleted}},
		{"the record deleted by hand", func() { c.Del(t.Context(), "lock:{k}") }, []picket.Reason{picket.ReasonDeleted}},
		{"the record overwritten by hand", func() { c.Set(t.Context(), "lock:{k}", "mine", 100*time.Millisecond) }, []picket.Reason{picket.ReasonStolen, picket.ReasonDeleted}},
		{"a restart without data", func() { server.Restart(false) }, []picket.Reason{picket.ReasonFailover}},
	} {
		lease := acquired(t, holder, "k")
		renewed.await(t, 1, 2*time.Second) // the reason failover rests on it
		tt.do()
		lost := lostIn(t, lease, 2*time.Second)
		known := false
		for _, r := range tt.reason {
			known = known || lost.Reason == r
		}
		if !known {
			t.Errorf("%s: lost for the reason %q, want %q", tt.name, lost.Reason, tt.reason)
		}
		if err := lease.Release(t.Context()); !errors.Is(err, picket.ErrLost) {
			t.Errorf("%s: Release = %v, want ErrLost", tt.name, err)
		}
		next := acquired(t, other, "k")
		if next.Token() <= lease.Token() {
			t.Errorf("%s: token %d follows %d", tt.name, next.Token(), lease.Token())
		}
		if err := next.Release(t.Context()); err != nil {
			t.Errorf("%s: Release = %v", tt.name, err)
		}
	}
}

// TestWhatTheServerGetsOverTheHolderDoesNotNotice: SCRIPT FLUSH, CLIENT KILL, DEBUG SLEEP, a short SIGSTOP, a restart with AOF (L11, L13, GL-23, GL-69).
func TestWhatTheServerGetsOverTheHolderDoesNotNotice(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		do   func(context.Context, *redistest.Server, *redis.Client)
	}{
		{"SCRIPT FLUSH", func(ctx context.Context, _ *redistest.Server, c *redis.Client) { c.ScriptFlush(ctx) }},
		{"CLIENT KILL", func(ctx context.Context, _ *redistest.Server, c *redis.Client) {
			c.Do(ctx, "client", "kill", "type", "normal", "skipme", "yes")
		}},
		{"DEBUG SLEEP", func(ctx context.Context, _ *redistest.Server, c *redis.Client) { c.Do(ctx, "debug", "sleep", "0.8") }},
		{"SIGSTOP", func(_ context.Context, s *redistest.Server, _ *redis.Client) {
			s.Stop()
			time.AfterFunc(800*time.Millisecond, s.Cont)
		}},
		{"SIGKILL and a restart with AOF", func(_ context.Context, s *redistest.Server, _ *redis.Client) { s.Kill(); s.Restart(true) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, redistest.WithDebugCommands(), redistest.WithAOF("always"))
			l := locker(t, store(t, client(t, server)), picket.WithTTL(3*time.Second))
			lease := acquired(t, l, "k")
			tt.do(t.Context(), server, server.Client(t))
			select {
			case <-lease.Done():
				t.Errorf("lost: %v", lease.Check())
			case <-time.After(3500 * time.Millisecond): // longer than the TTL
			}
			if err := lease.Release(t.Context()); err != nil {
				t.Errorf("Release = %v", err)
			}
		})
	}
}

// TestAServerThatStandsStillEndsTheHolderFirst covers L12 and GL-20: SIGSTOP for longer than the TTL.
func TestAServerThatStandsStillEndsTheHolderFirst(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	l := locker(t, store(t, client(t, server)), picket.WithTTL(time.Second))
	lease := acquired(t, l, "k")
	began := time.Now()
	server.Stop()
	lost := lostIn(t, lease, 3*time.Second)
	const late = 200 * time.Millisecond // until this goroutine runs, on a machine that is busy
	if took := time.Since(began); took > time.Second+late || lost.Reason != picket.ReasonUnreachable && lost.Reason != picket.ReasonExpired {
		t.Errorf("lost after %v for the reason %q, want before the TTL is over", took, lost.Reason)
	}
	server.Cont()
	// The server has stood still too: it may still have the record, and then nobody worked beside us.
	if err := lease.Release(t.Context()); err != nil && !errors.Is(err, picket.ErrLost) {
		t.Errorf("Release = %v, want nil or ErrLost", err)
	}
	next := acquired(t, l, "k")
	if next.Token() <= lease.Token() {
		t.Errorf("token %d follows %d", next.Token(), lease.Token())
	}
	_ = next.Release(t.Context())
}

// TestARequestThatComesAfterItsUndoIsRefused covers L1 and L2 on a server that stood still.
func TestARequestThatComesAfterItsUndoIsRefused(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	c := client(t, server)
	l := locker(t, store(t, c))
	_ = acquired(t, l, "warm").Release(t.Context())
	for range 5 {
		server.Stop()
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), rand.N(200*time.Millisecond))
				defer cancel()
				if _, err := l.Acquire(ctx, "k"); err == nil {
					t.Error("a stopped server granted")
				}
			})
		}
		wg.Wait()
		server.Cont()
		if !eventually(2*time.Second, func() bool { return c.Exists(t.Context(), "lock:{k}").Val() == 0 }) {
			t.Fatal("a ghost holds the key")
		}
	}
	_ = acquired(t, l, "k").Release(t.Context())
}

// TestAServersClockThatStepsBackMakesNobodyWaitAnHour, and one that steps forward lets two hold, which the tokens tell apart (notes of DESIGN 3.2 and 3.7).
func TestAServersClockThatStepsBackMakesNobodyWaitAnHour(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.WithClock())
	a := locker(t, store(t, client(t, server)), picket.WithTTL(time.Second), picket.WithoutRenewal())
	var renewed renewals
	b := locker(t, store(t, client(t, server)), picket.WithTTL(time.Second), renewed.option())
	first := acquired(t, a, "k")
	server.SetClock(-time.Hour)
	began := time.Now()
	second := acquired(t, b, "k")
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("waited %v for a lease of a second", took)
	}
	if second.Token() <= first.Token() {
		t.Errorf("token %d follows %d", second.Token(), first.Token())
	}
	renewed.await(t, 2, 2*time.Second) // with the clock an hour behind
	if err := second.Check(); err != nil {
		t.Errorf("a lease of after the step: %v", err)
	}
	server.SetClock(time.Minute)
	third := acquired(t, a, "k")
	if third.Token() <= second.Token() {
		t.Errorf("token %d follows %d", third.Token(), second.Token())
	}
	lostIn(t, second, 2*time.Second)
	_ = second.Release(t.Context())
	if err := third.Release(t.Context()); err != nil {
		t.Errorf("Release = %v", err)
	}
}

// TestMemoryPressure covers D3: what was evicted is reported lost, tokens rise, and a release works without memory.
func TestMemoryPressure(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"noeviction", "allkeys-lru", "allkeys-random", "volatile-ttl", "volatile-lru"} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, redistest.WithMaxMemory("6mb", policy))
			c := client(t, server)
			l := locker(t, store(t, c), picket.WithTTL(2*time.Second))
			var leases []*picket.Lease
			last := map[string]int64{}
			for i := range 30 {
				lease := acquired(t, l, "k"+strconv.Itoa(i))
				leases, last[lease.Key()] = append(leases, lease), lease.Token()
			}
			fill(t, c)
			if policy == "noeviction" || policy[:8] == "volatile" {
				c.ConfigSet(t.Context(), "maxmemory", "2mb") // else the next byte may fit
				_, err := l.TryAcquire(t.Context(), "new")
				if err == nil || !errors.Is(err, picket.ErrRefused) {
					t.Errorf("TryAcquire without memory = %v, want ErrRefused", err)
				}
			}
			lost := 0
			for _, lease := range leases {
				if err := lease.Release(t.Context()); errors.Is(err, picket.ErrLost) {
					lost++
				} else if err != nil {
					t.Errorf("Release without memory = %v", err)
				}
			}
			if policy == "noeviction" && lost > 0 {
				t.Errorf("%d leases were lost, want none", lost)
			}
			c.ConfigSet(t.Context(), "maxmemory", "0")
			for key, token := range last {
				lease := acquired(t, l, key)
				if lease.Token() <= token {
					t.Errorf("token %d follows %d", lease.Token(), token)
				}
				_ = lease.Release(t.Context())
			}
		})
	}
}

// fill writes until the memory is used up, or has been turned over.
func fill(t *testing.T, c *redis.Client) {
	value := make([]byte, 4096)
	for i := range 4000 {
		if err := c.Set(t.Context(), "fill"+strconv.Itoa(i), value, 0).Err(); err != nil {
			return
		}
	}
}

// TestABlackHoledHolderNeverOverlapsWithTheNext covers GL-20 and L12: cut off at random points, its contexts end before the server lets the next one in.
func TestABlackHoledHolderNeverOverlapsWithTheNext(t *testing.T) {
	t.Parallel()
	rounds := 200
	if testing.Short() {
		rounds = 40
	}
	const ttl = 500 * time.Millisecond
	server := redistest.Shared(t)
	var wg sync.WaitGroup
	slots := make(chan struct{}, 12)
	for i := range rounds {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			key := "hole-" + strconv.Itoa(i)
			proxy := redistest.StartProxy(t, server.Addr(), uint64(i))
			cut := locker(t, store(t, behind(t, server, proxy)), picket.WithTTL(ttl))
			clean := locker(t, store(t, client(t, server)), picket.WithTTL(ttl))
			lease := acquired(t, cut, key)
			var ended atomic.Int64
			ctx := lease.Context(t.Context())
			context.AfterFunc(ctx, func() { ended.Store(time.Now().UnixNano()) })
			time.Sleep(rand.N(2 * ttl))
			switch i % 3 {
			case 0:
				proxy.BlackHole()
			case 1:
				proxy.BlackHole(redistest.Requests)
			case 2:
				proxy.BlackHole(redistest.Replies)
			}
			next := acquired(t, clean, key)
			in := time.Now().UnixNano()
			if at := ended.Load(); at == 0 && !eventually(50*time.Millisecond, func() bool { return ended.Load() != 0 }) || ended.Load() > in {
				t.Errorf("round %d: the next holder is in, and the contexts of the first ended at %d, %d ns later", i, at, ended.Load()-in)
			}
			if next.Token() <= lease.Token() {
				t.Errorf("token %d follows %d", next.Token(), lease.Token())
			}
			_ = next.Release(t.Context())
		})
	}
	wg.Wait()
}
