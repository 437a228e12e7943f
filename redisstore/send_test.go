package redisstore_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/picket-go/picket"
	"github.com/picket-go/picket/internal/redistest"
	"github.com/picket-go/picket/redisstore"
)

// behind connects to server through p with go-redis' defaults, which repeat commands and heed no ctx.
func behind(t testing.TB, server *redistest.Server, p *redistest.Proxy) *redis.Client {
	o := server.Options()
	o.Addr = p.Addr()
	c := redis.NewClient(o)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// TestACommandIsSentAtMostOnce covers L3, GL-01 and GL-02: go-redis by itself repeats what had no answer.
func TestACommandIsSentAtMostOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.StartProxy(t, server.Addr(), 1)
	s := store(t, behind(t, server, proxy))
	plain := server.Client(t)
	c := claim("k")
	if _, err := s.Acquire(t.Context(), claim("warm")); err != nil {
		t.Fatal(err)
	}
	for _, fault := range []redistest.Fault{redistest.Cut(redistest.Replies), redistest.Cut(redistest.Requests)} {
		before := proxy.Counts().Cut
		proxy.Sometimes(1, fault, "evalsha", "eval")
		_, err := s.Acquire(t.Context(), c)
		proxy.Heal()
		if !errors.Is(err, picket.ErrUnavailable) || errors.Is(err, picket.ErrBusy) {
			t.Errorf("Acquire = %v, want ErrUnavailable", err)
		}
		if n := proxy.Counts().Cut - before; n != 1 {
			t.Errorf("%d attempts, want 1", n)
		}
	}
	first, err := plain.Get(t.Context(), "lock:{k}:fence").Int64()
	if err != nil {
		t.Fatal("the request whose reply was lost has not arrived:", err)
	}
	again, err := s.Acquire(t.Context(), c)
	if err != nil || again.Token != first {
		t.Errorf("the same claim again = token %d, %v, want %d", again.Token, err, first)
	}
	lease, err := locker(t, s).TryAcquire(t.Context(), "other")
	if err != nil {
		t.Fatal(err)
	}
	proxy.Next(1, redistest.Cut(redistest.Replies), "evalsha")
	if err := lease.Release(t.Context()); err != nil {
		t.Errorf("a release whose first reply was lost = %v", err)
	}
}

// TestALostReplyToALockersAcquireIsASuccess covers L3 and GL-02.
func TestALostReplyToALockersAcquireIsASuccess(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.StartProxy(t, server.Addr(), 1)
	l := locker(t, store(t, behind(t, server, proxy)))
	for range 20 {
		proxy.Next(1, redistest.Cut(redistest.Replies), "evalsha", "eval")
		began := time.Now()
		lease, err := l.Acquire(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("took %v, want about one more attempt", took)
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestACallerLeavesOnTimeWhateverTheNetworkDoes: go-redis heeds a deadline only when told to, and a cancel never (W4, GL-09).
func TestACallerLeavesOnTimeWhateverTheNetworkDoes(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.StartProxy(t, server.Addr(), 1)
	s := store(t, behind(t, server, proxy))
	if _, err := s.Acquire(t.Context(), claim("warm")); err != nil {
		t.Fatal(err)
	}
	proxy.BlackHole()
	for op, call := range operations(s) {
		for name, end := range map[string]func() (context.Context, context.CancelFunc){
			"deadline": func() (context.Context, context.CancelFunc) {
				return context.WithTimeout(t.Context(), 60*time.Millisecond)
			},
			"cancel": func() (context.Context, context.CancelFunc) {
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(60*time.Millisecond, cancel)
				return ctx, cancel
			},
		} {
			ctx, cancel := end()
			began := time.Now()
			err := call(ctx, claim("k"))
			took := time.Since(began)
			cancel()
			if took > 300*time.Millisecond || !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
				t.Errorf("%s with a %s after 60 ms = %v after %v", op, name, err, took)
			}
		}
	}
	// A ctx that never ends has the bound of the call.
	began := time.Now()
	_, err := s.Acquire(context.WithoutCancel(t.Context()), claim("k"))
	if took := time.Since(began); took > 2500*time.Millisecond || !errors.Is(err, picket.ErrUnavailable) {
		t.Errorf("Acquire without end = %v after %v, want ErrUnavailable after about a second", err, took)
	}
}

// wantQuickClose closes s while its server is silent.
func wantQuickClose(t *testing.T, s *redisstore.Store) {
	t.Helper()
	began := time.Now()
	end, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	if err := s.Close(end); err != nil {
		t.Errorf("Close = %v", err)
	}
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("Close took %v", took)
	}
}

// A subscription is opened again after each outage, so its handshake is what Close meets.
func TestCloseNeedNotWaitForASubscriptionThatOpens(t *testing.T) {
	t.Parallel()
	for name, heeds := range map[string]bool{"default": false, "ContextTimeoutEnabled": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			opts := server.Options()
			opts.ContextTimeoutEnabled, opts.ReadTimeout = heeds, 12*time.Second
			c := redis.NewClient(opts)
			defer c.Close()
			s, err := redisstore.New(c)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Acquire(t.Context(), claim("k")); err != nil {
				t.Fatal(err)
			}
			server.Stop()
			defer server.Cont()
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			if _, _, err := s.Watch(ctx, claim("k")); !errors.Is(err, picket.ErrUnavailable) {
				t.Errorf("Watch = %v, want ErrUnavailable", err)
			}
			wantQuickClose(t, s)
		})
	}
}

// TestCloseEndsEverythingSoonAlsoWithoutAServer covers GL-67.
func TestCloseEndsEverythingSoonAlsoWithoutAServer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	c := client(t, server)
	s, err := redisstore.New(c)
	if err != nil {
		t.Fatal(err)
	}
	l := picket.New(s)
	ctx, cancel := context.WithCancel(t.Context())
	lease, err := l.Acquire(ctx, "k")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() { _, _ = l.Acquire(ctx, "k") })
	}
	_, stop, err := s.Watch(ctx, claim("k"))
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	server.Stop()
	for range 10 {
		wg.Go(func() { _, _ = s.Acquire(ctx, claim("x")) })
	}
	time.AfterFunc(50*time.Millisecond, cancel)
	wg.Wait()
	wantQuickClose(t, s)
	if _, err := s.Acquire(t.Context(), claim("k")); !errors.Is(err, picket.ErrClosed) {
		t.Errorf("Acquire after Close = %v, want ErrClosed", err)
	}
	if _, _, err := s.Watch(t.Context(), claim("k")); !errors.Is(err, picket.ErrClosed) {
		t.Errorf("Watch after Close = %v, want ErrClosed", err)
	}
	server.Cont()
	_ = lease.Release(t.Context())
	end, cancelEnd := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancelEnd()
	_ = l.Shutdown(end)
}

// TestThousandsOfCancelledRoundsLeaveNothing covers L7, GL-40 and GL-67: through a network that delays, with ctx ended at random moments, no record, place or waiter and no
// goroutine is left.
func TestThousandsOfCancelledRoundsLeaveNothing(t *testing.T) {
	rounds, callers := 10_000, 400
	if testing.Short() {
		rounds = 1000
	}
	const longest = 400 * time.Millisecond
	server := redistest.Start(t)
	proxy := redistest.StartProxy(t, server.Addr(), 42)
	o := server.Options()
	o.Addr, o.PoolSize = proxy.Addr(), 400
	c := redis.NewClient(o)
	t.Cleanup(func() { _ = c.Close() })
	s := store(t, c)
	l := picket.New(s)
	warm, err := l.Acquire(t.Context(), "warm")
	if err != nil {
		t.Fatal(err)
	}
	_ = warm.Release(t.Context())
	proxy.Sometimes(0.5, redistest.Delay(redistest.Requests, 0, longest), "evalsha", "eval")
	proxy.Sometimes(0.5, redistest.Delay(redistest.Replies, 0, longest), "evalsha", "eval")

	var wg sync.WaitGroup
	work := make(chan int, rounds)
	for i := range rounds {
		work <- i
	}
	close(work)
	keys := [...]string{"a", "b", "c", "d", "e", "f", "g", "h"}
	for range callers {
		wg.Go(func() {
			for i := range work {
				ctx, cancel := context.WithCancel(t.Context())
				timer := time.AfterFunc(rand.N(longest), cancel)
				key := keys[i%len(keys)]
				if i%2 == 0 {
					key = "alone-" + keys[i%len(keys)] + string(rune('0'+i%10))
				}
				if lease, err := l.Acquire(ctx, key); err == nil {
					_ = lease.Release(t.Context())
				} else if ctx.Err() == nil {
					t.Errorf("Acquire = %v before its ctx ended", err)
				}
				timer.Stop()
				cancel()
			}
		})
	}
	wg.Wait()
	proxy.Heal()
	left := func() (keys []string) {
		for _, key := range server.Client(t).Keys(t.Context(), "lock:*").Val() {
			if n := len(key); n < 5 || key[n-5:] != "fence" && key[n-5:] != ":gone" {
				keys = append(keys, key)
			}
		}
		return keys
	}
	// Twice the longest delay for the clean-up, and the linger of the subscription for the goroutines.
	if !eventually(2*longest+time.Second, func() bool { return len(left()) == 0 }) {
		t.Errorf("keys are left: %v", left())
	}
	if !eventually(4*time.Second, func() bool { return len(goroutines()) == 0 }) {
		t.Errorf("goroutines are left:\n%s", strings.Join(goroutines(), "\n\n"))
	}
	end, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := l.Shutdown(end); err != nil {
		t.Error(err)
	}
}

// goroutines are the stacks of those that the Locker and the Store have begun.
func goroutines() []string {
	buf := make([]byte, 1<<20)
	var ours []string
	for stack := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if strings.Contains(stack, "picket.(*") || strings.Contains(stack, "redisstore.(*") {
			ours = append(ours, stack)
		}
	}
	return ours
}

// eventually asks until it is true, for at most d.
func eventually(d time.Duration, f func() bool) bool {
	for end := time.Now().Add(d); ; {
		if f() {
			return true
		}
		if time.Now().After(end) {
			return false
		}
		time.Sleep(5 * time.Millisecond)
	}
}
