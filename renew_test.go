package picket_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/picket-go/picket"
	"github.com/picket-go/picket/memstore"
)

// changes records what an observer hears of leases.
type changes struct {
	mu     sync.Mutex
	states []string
	when   []time.Duration
	began  time.Time
}

func (c *changes) observer() picket.Observer {
	c.began = time.Now()
	return picket.Observer{LeaseChange: func(e picket.LeaseEvent) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.states = append(c.states, e.From.String()+">"+e.To.String())
		c.when = append(c.when, time.Since(c.began))
	}}
}

func (c *changes) want(t *testing.T, states ...string) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Equal(c.states, states) {
		t.Errorf("states went %v at %v, want %v", c.states, c.when, states)
	}
}

// at returns when the state was entered, from the beginning.
func (c *changes) at(to string) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, s := range c.states {
		if _, state, _ := strings.Cut(s, ">"); state == to {
			return c.when[i]
		}
	}
	return -1
}

// GL-26, pglock#5: the acquire's ctx does not bound the hold; renewals go on.
func TestAcquiresCtxDoesNotBoundTheHold(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := onMemory()
		l := picket.New(store, picket.WithTTL(time.Second))
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		le, err := l.Acquire(ctx, "k")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		if le.Check() != nil || store.renews.Load() < 8 {
			t.Errorf("%v after %d renewals", le.Check(), store.renews.Load())
		}
		release(t, le)
	})
}

func TestARenewalIsDueAThirdOfTheTTLAfterTheLastSuccess(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := onMemory()
		began := time.Now()
		var at []time.Duration
		store.renew = func(ctx context.Context, cs []picket.Claim, report func(int, error)) {
			at = append(at, time.Since(began))
			store.Store.Renew(ctx, cs, report)
		}
		l := picket.New(store)
		le := acquire(t, l, "k")
		time.Sleep(time.Minute + time.Second)
		release(t, le)
		if len(at) != 6 || at[0] != 10*time.Second || at[5] != time.Minute {
			t.Errorf("renewed at %v", at)
		}
	})
}

// A store may give less than was asked, for instance because of a limit of its own.
func TestARenewalIsInTimeWhenTheStoreGivesLess(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := onMemory()
		var seen changes
		shorter := func(c picket.Claim) picket.Claim { c.TTL = min(c.TTL, 6*time.Second); return c }
		store.acquire = func(ctx context.Context, c picket.Claim) (picket.Grant, error) {
			g, err := store.Store.Acquire(ctx, shorter(c))
			g.TTL = 6 * time.Second
			return g, err
		}
		l := picket.New(store, picket.WithObserver(seen.observer()))
		le := acquire(t, l, "k")
		if d := le.Remaining(); d > 6*time.Second {
			t.Errorf("believes in %s", d)
		}
		time.Sleep(time.Minute)
		if err := le.Check(); err != nil {
			t.Error(err)
		}
		release(t, le)
		seen.want(t, "held>released")
	})
}

// L11, L13, GL-23: one renewal fails, the next works: jeopardy, then held again. No context ends.
func TestAFailedRenewalIsJeopardyAndTheNextSuccessEndsIt(t *testing.T) {
	for name, c := range map[string]struct {
		answer func(ctx context.Context, cs []picket.Claim, report func(int, error))
		outage time.Duration
	}{
		"an error":            {func(_ context.Context, _ []picket.Claim, report func(int, error)) { report(0, errWire) }, time.Millisecond},
		"no report":           {func(context.Context, []picket.Claim, func(int, error)) {}, time.Millisecond},
		"it hangs":            {func(ctx context.Context, _ []picket.Claim, _ func(int, error)) { <-ctx.Done() }, time.Millisecond},
		"try later":           {func(_ context.Context, _ []picket.Claim, report func(int, error)) { report(0, picket.ErrUnavailable) }, 5 * time.Second},
		"a quarter of TTL":    {func(_ context.Context, _ []picket.Claim, report func(int, error)) { report(0, errWire) }, 7500 * time.Millisecond},
		"nearly to the end":   {func(_ context.Context, _ []picket.Claim, report func(int, error)) { report(0, errWire) }, 17 * time.Second},
		"refused for a while": {func(_ context.Context, _ []picket.Claim, report func(int, error)) { report(0, picket.ErrRefused) }, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				store := onMemory()
				began := time.Now()
				var failed atomic.Bool
				store.renew = func(ctx context.Context, cs []picket.Claim, report func(int, error)) {
					if at := time.Since(began); at >= 10*time.Second && (!failed.Load() || at < 10*time.Second+c.outage) {
						failed.Store(true)
						c.answer(ctx, cs, report)
						return
					}
					store.Store.Renew(ctx, cs, report)
				}
				var seen changes
				l := picket.New(store, picket.WithObserver(seen.observer()))
				le := acquire(t, l, "k")
				ctx := le.Context(t.Context())
				time.Sleep(90 * time.Second)
				if ctx.Err() != nil || le.Check() != nil {
					t.Errorf("%v, %v", context.Cause(ctx), le.Check())
				}
				release(t, le)
				seen.want(t, "held>jeopardy", "jeopardy>held", "held>released")
			})
		})
	}
}

// L12, GL-20: the store is cut off and no call returns. Jeopardy after the first failure; contexts end at deadline - grace, before the store's expiry, by our own clock;
// and a second client on a clean link never works at the same time.
func TestTheHolderKnowsFirst(t *testing.T) {
	for name, renew := range map[string]func(ctx context.Context){
		"calls end with their ctx": func(ctx context.Context) { <-ctx.Done() },
		"calls never return":       nil,
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				store := onMemory()
				began := time.Now()
				healed := make(chan struct{})
				store.renew = func(ctx context.Context, cs []picket.Claim, report func(int, error)) {
					switch {
					case time.Since(began) < 15*time.Second:
						store.Store.Renew(ctx, cs, report)
					case renew != nil:
						renew(ctx)
					default:
						<-healed
					}
				}
				var seen changes
				l := picket.New(store, picket.WithObserver(seen.observer()))
				le := acquire(t, l, "k")
				ctx := le.Context(t.Context())
				other := make(chan time.Duration)
				go func() {
					next := acquire(t, picket.New(store.Store), "k")
					if ctx.Err() == nil {
						t.Error("two work")
					}
					if next.Token() <= le.Token() {
						t.Errorf("token %d after %d", next.Token(), le.Token())
					}
					other <- time.Since(began)
					release(t, next)
				}()
				<-ctx.Done()
				// The last renewal that worked left at 10 s.
				if at, want := time.Since(began), 10*time.Second+28198*time.Millisecond; at != want {
					t.Errorf("contexts ended at %s, want %s", at, want)
				}
				wantReason(t, context.Cause(ctx), picket.ReasonUnreachable)
				wantReason(t, le.Check(), picket.ReasonUnreachable)
				if at := <-other; at < 40*time.Second || at > 40*time.Second+pollBound {
					t.Errorf("the next one works from %s", at)
				}
				close(healed)
				wantReason(t, le.Release(t.Context()), picket.ReasonUnreachable)
				if name == "calls never return" {
					seen.want(t, "held>ending", "ending>lost") // nobody can tell that a call is late, until it is
				} else {
					seen.want(t, "held>jeopardy", "jeopardy>ending", "ending>lost")
					if at := seen.at("jeopardy"); at > 23*time.Second {
						t.Errorf("jeopardy at %s", at)
					}
				}
				if at, want := seen.at("lost"), 10*time.Second+29698*time.Millisecond; at != want {
					t.Errorf("lost at %s, want %s", at, want)
				}
				wantIdle(t, l)
			})
		})
	}
}

// A success that comes after the contexts have ended revives nothing.
func TestALateSuccessRevivesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := onMemory()
		store.renew = func(ctx context.Context, cs []picket.Claim, report func(int, error)) {
			time.Sleep(18*time.Second + 500*time.Millisecond) // longer than the lease
			store.Store.Renew(context.WithoutCancel(ctx), cs, report)
		}
		var seen changes
		l := picket.New(store, picket.WithObserver(seen.observer()))
		le := acquire(t, l, "k")
		<-le.Done()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		wantIs(t, le.Check(), picket.ErrLost)
		seen.want(t, "held>ending", "ending>lost")
		if at := seen.at("lost"); at != 29698*time.Millisecond {
			t.Errorf("lost at %s", at)
		}
		if le.Remaining() != 0 {
			t.Errorf("%s remain", le.Remaining())
		}
		_ = le.Release(t.Context())
	})
}

// "Not yours" from the store is the end at once, with the store's reason or with the one that the clock gives.
func TestNotYoursIsLostAtOnce(t *testing.T) {
	for name, c := range map[string]struct{ said, want picket.Reason }{
		"a reason":  {picket.ReasonStolen, picket.ReasonStolen},
		"failover":  {picket.ReasonFailover, picket.ReasonFailover},
		"no reason": {"", picket.ReasonDeleted},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				store := onMemory()
				store.renew = func(_ context.Context, cs []picket.Claim, report func(int, error)) {
					report(0, &picket.LostError{Key: cs[0].Key, Reason: c.said})
				}
				var seen changes
				l := picket.New(store, picket.WithObserver(seen.observer()))
				le := acquire(t, l, "k")
				if d := took(func() { <-le.Done() }); d != 10*time.Second {
					t.Errorf("told after %s", d)
				}
				wantReason(t, le.Check(), c.want)
				synctest.Wait()
				seen.want(t, "held>lost")
				lost, _ := errors.AsType[*picket.LostError](le.Check())
				if lost.Key != "k" || lost.Token != le.Token() || !lost.At.Equal(time.Now()) {
					t.Errorf("%+v", lost)
				}
				if n := store.renews.Load(); n != 1 {
					t.Errorf("%d renewals", n)
				}
			})
		})
	}
}

func TestABrokenLeaseIsLostAndNotGivenOnEarly(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := memstore.New()
		l := picket.New(store)
		le := acquire(t, l, "k")
		time.Sleep(time.Second)
		if err := store.Break(t.Context(), "k", le.Token()); err != nil {
			t.Fatal(err)
		}
		next := acquire(t, picket.New(store), "k")
		wantReason(t, le.Check(), picket.ReasonBroken)
		release(t, next)
	})
}

func TestMaxHoldEndsALeaseWhoseHolderLives(t *testing.T) {
	for _, c := range []struct{ ttl, hold time.Duration }{{time.Second, 10 * time.Second}, {30 * time.Second, 45 * time.Second}, {time.Minute, 5 * time.Second}} {
		t.Run(fmt.Sprint(c.ttl, " ", c.hold), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				store := memstore.New()
				var seen changes
				l := picket.New(store, picket.WithTTL(c.ttl), picket.WithMaxHold(c.hold), picket.WithObserver(seen.observer()))
				le := acquire(t, l, "k")
				next := make(chan time.Duration)
				go func() {
					began := time.Now()
					le := acquire(t, picket.New(store), "k")
					next <- time.Since(began)
					release(t, le)
				}()
				d := took(func() { <-le.Done() })
				if d >= c.hold || d < c.hold-2*time.Second {
					t.Errorf("contexts ended after %s of %s", d, c.hold)
				}
				wantReason(t, le.Check(), picket.ReasonMaxHold)
				if d := <-next; d < c.hold-time.Second/2 || d > c.hold+c.hold/10 {
					t.Errorf("the next one works after %s", d)
				}
				synctest.Wait()
				seen.want(t, "held>ending", "ending>lost")
				wantIdle(t, l)
			})
		})
	}
}

// GL-18, redsync#61: T = 300 ms, not renewed; 500 ms later extend and release both say expired.
func TestAFixedLeaseEndsAfterItsTTL(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := onMemory()
		l := picket.New(store, picket.WithTTL(300*time.Millisecond), picket.WithoutRenewal())
		le := acquire(t, l, "k")
		if d := took(func() { <-le.Done() }); d != 245*time.Millisecond {
			t.Errorf("contexts ended after %s", d)
		}
		time.Sleep(255 * time.Millisecond)
		wantReason(t, le.Renew(t.Context(), 0), picket.ReasonExpired)
		_, err := le.Confirm(t.Context())
		wantReason(t, err, picket.ReasonExpired)
		wantReason(t, le.Release(t.Context()), picket.ReasonExpired)
		if n := store.renews.Load(); n != 0 {
			t.Errorf("%d renewals", n)
		}
		wantIdle(t, l)
	})
}

// GL-70: 5,000 leases of one client: few round trips, no burst, nothing lost.
func TestFiveThousandLeasesAreRenewedInBatches(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := onMemory()
		var flying, most atomic.Int64
		store.renew = func(ctx context.Context, cs []picket.Claim, report func(int, error)) {
			if len(cs) > 256 {
				t.Errorf("a batch of %d", len(cs))
			}
			for n := flying.Add(1); n > most.Load(); {
				most.Store(n)
			}
			defer flying.Add(-1)
			time.Sleep(20 * time.Millisecond)
			store.Store.Renew(ctx, cs, report)
		}
		var seen changes
		var renewed atomic.Int64
		l := picket.New(store, picket.WithObserver(seen.observer()), picket.WithObserver(picket.Observer{RenewEnd: func(e picket.RenewEvent) {
			renewed.Add(int64(e.Renewed))
			if e.Lost+e.Unanswered != 0 || e.Headroom < 19*time.Second {
				t.Errorf("%+v", e)
			}
		}}))
		var leases []*picket.Lease
		for i := range 5000 {
			leases = append(leases, acquire(t, l, fmt.Sprint(i)))
			if i%1000 == 0 {
				time.Sleep(time.Millisecond)
			}
		}
		time.Sleep(35 * time.Second)
		if n := store.renews.Load(); n > 3*(5000/256+6) {
			t.Errorf("%d round trips for 3 renewals of 5,000 leases", n)
		}
		if n := renewed.Load(); n != 15_000 {
			t.Errorf("%d renewals", n)
		}
		if n := most.Load(); n > 16 {
			t.Errorf("%d calls at once", n)
		}
		seen.want(t)
		for _, le := range leases {
			release(t, le)
		}
		wantIdle(t, l)
	})
}

// A node that does not answer must not starve the leases on healthy ones: an unanswered batch is split.
func TestABlackHoleDoesNotStarveTheOthers(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := onMemory()
		dead := func(key string) bool { return strings.HasSuffix(key, "7") }
		store.renew = func(ctx context.Context, cs []picket.Claim, report func(int, error)) {
			if slices.ContainsFunc(cs, func(c picket.Claim) bool { return dead(c.Key) }) {
				<-ctx.Done() // the whole call is stuck behind one node
				return
			}
			store.Store.Renew(ctx, cs, report)
		}
		l := picket.New(store)
		lost, held := 0, 0
		var leases []*picket.Lease
		for i := range 500 {
			leases = append(leases, acquire(t, l, fmt.Sprint(i)))
		}
		time.Sleep(2 * time.Minute)
		for _, le := range leases {
			switch {
			case le.Check() == nil && !dead(le.Key()):
				held++
			case le.Check() != nil && dead(le.Key()):
				lost++
			}
			_ = le.Release(t.Context())
		}
		if held != 450 || lost != 50 {
			t.Errorf("%d of 450 are held, %d of 50 lost", held, lost)
		}
		wantIdle(t, l)
	})
}

// A report that comes late or twice, or for no claim, is a fault of the store; it counts for nothing.
func TestBadReportsCountForNothing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := onMemory()
		var mu sync.Mutex
		var late []func(int, error)
		store.renew = func(ctx context.Context, cs []picket.Claim, report func(int, error)) {
			report(-1, picket.ErrLost)
			report(len(cs), picket.ErrLost)
			store.Store.Renew(ctx, cs, report)
			report(0, picket.ErrLost)
			mu.Lock()
			defer mu.Unlock()
			late = append(late, report)
		}
		l := picket.New(store)
		le := acquire(t, l, "k")
		for range 5 {
			time.Sleep(10*time.Second + time.Millisecond)
			mu.Lock()
			for _, report := range late {
				report(0, picket.ErrLost)
			}
			mu.Unlock()
		}
		if err := le.Check(); err != nil {
			t.Error(err)
		}
		release(t, le)
	})
}

// An answer that comes when the contexts end is late: whether the timer or the answer is first, the reason is the same.
func TestARenewalThatIsUnderWayAtTheEndIsOneWithoutAnAnswer(t *testing.T) {
	got := map[picket.Reason]int{}
	for range 50 {
		synctest.Test(t, func(t *testing.T) {
			store := onMemory()
			began := time.Now()
			store.renew = func(_ context.Context, cs []picket.Claim, report func(int, error)) {
				time.Sleep(time.Until(began.Add(28198 * time.Millisecond))) // 30 s without drift and grace
				for i := range cs {
					report(i, nil)
				}
			}
			le := acquire(t, picket.New(store), "k")
			<-le.Done()
			if lost, ok := errors.AsType[*picket.LostError](le.Check()); ok {
				got[lost.Reason]++
			}
			_ = le.Release(t.Context())
		})
	}
	if got[picket.ReasonUnreachable] != 50 {
		t.Errorf("reasons: %v, want unreachable only", got)
	}
}
