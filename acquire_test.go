package picket_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/picket-go/picket"
	"github.com/picket-go/picket/memstore"
)

func TestTryAcquireMakesOneAttempt(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := onMemory()
		l := picket.New(store, picket.WithLabel("first"))
		held := acquire(t, l, "k")
		before := store.acquires.Load()
		_, err := l.TryAcquire(t.Context(), "k")
		wantIs(t, err, picket.ErrBusy)
		busy, ok := errors.AsType[*picket.BusyError](err)
		if !ok || busy.Key != "k" || busy.Holder.Label != "first" || busy.Remaining != 30*time.Second || busy.Waiters != 0 {
			t.Errorf("busy: %+v", busy)
		}
		if n := store.acquires.Load() - before; n != 1 {
			t.Errorf("%d attempts", n)
		}
		release(t, held)
		again, err := l.TryAcquire(t.Context(), "k")
		if err != nil || again.Token() <= held.Token() {
			t.Errorf("token %d after %d, %v", again.Token(), held.Token(), err)
		}
		release(t, again)
		wantIdle(t, l)
	})
}

func TestTryAcquireNeverPassesAWaiter(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := memstore.New()
		a, b := picket.New(store), picket.New(store)
		held := acquire(t, a, "k")
		got := make(chan *picket.Lease)
		go func() { got <- acquire(t, b, "k") }()
		synctest.Wait()
		release(t, held)
		_, err := a.TryAcquire(t.Context(), "k")
		wantIs(t, err, picket.ErrBusy)
		release(t, <-got)
	})
}

func TestACoolingKeyIsBusy(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := picket.New(memstore.New(), picket.WithMinHold(time.Minute))
		release(t, acquire(t, l, "k"))
		_, err := l.TryAcquire(t.Context(), "k")
		wantIs(t, err, picket.ErrBusy)
		if d := took(func() { release(t, acquire(t, l, "k")) }); d < 59*time.Second || d > time.Minute+pollBound {
			t.Errorf("the key cooled down for %s, want a minute", d)
		}
	})
}

// pollBound is how late a waiter may notice what nobody told it: 250 ms for the first two in line.
const pollBound = 250 * time.Millisecond

// GL-47: without a bound, a waiter waits until the key is free.
func TestAcquireWaitsUntilTheKeyIsGranted(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := memstore.New()
		a, b := picket.New(store), picket.New(store)
		held := acquire(t, a, "k")
		time.AfterFunc(10*time.Hour, func() { _ = held.Release(t.Context()) })
		var le *picket.Lease
		if d := took(func() { le = acquire(t, b, "k") }); d != 10*time.Hour {
			t.Errorf("waited %s; the hand-off is at once", d)
		}
		if le.Token() <= held.Token() {
			t.Errorf("token %d after %d", le.Token(), held.Token())
		}
		release(t, le)
	})
}

// GL-40, GL-41: the end of ctx ends the waiting at once, is visible in the error beside the holder, and leaves no place in the queue.
func TestTheEndOfCtxEndsTheWaiting(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := memstore.New()
		a, b := picket.New(store, picket.WithLabel("backup")), picket.New(store)
		held := acquire(t, a, "k")
		ctx, cancel := context.WithTimeoutCause(t.Context(), 200*time.Millisecond, errors.New("deploy is due"))
		defer cancel()
		var err error
		if d := took(func() { _, err = b.Acquire(ctx, "k") }); d != 200*time.Millisecond {
			t.Errorf("returned after %s", d)
		}
		wantIs(t, err, picket.ErrBusy, context.DeadlineExceeded, context.Cause(ctx))
		if !strings.Contains(err.Error(), "backup") || !strings.Contains(err.Error(), "deploy is due") || strings.Contains(err.Error(), "\n") {
			t.Errorf("message %q", err)
		}
		wantIdle(t, b)
		release(t, held)
		wantFree(t, store, "k")
	})
}

func TestAnEndedCtxIsRefusedBeforeAnythingIsSent(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := onMemory()
		l := picket.New(store)
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errWire)
		_, err := l.Acquire(ctx, "k")
		wantIs(t, err, context.Canceled, errWire)
		_, err = l.TryAcquire(ctx, "k")
		wantIs(t, err, context.Canceled, errWire)
		if errors.Is(err, picket.ErrBusy) || store.acquires.Load() != 0 {
			t.Errorf("%d requests, %v", store.acquires.Load(), err)
		}
	})
}

// The end of ctx and the grant at the same moment: ctx wins, and the key is free again.
func TestTheEndOfCtxWinsAgainstTheGrant(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := onMemory()
		l := picket.New(store)
		for _, how := range []func(context.Context, string) (*picket.Lease, error){l.Acquire, l.TryAcquire} {
			ctx, cancel := context.WithCancel(t.Context())
			store.acquire = func(_ context.Context, c picket.Claim) (picket.Grant, error) {
				g, err := store.Store.Acquire(t.Context(), c)
				cancel()
				return g, err
			}
			le, err := how(ctx, "k")
			if le != nil {
				t.Errorf("granted after the end of ctx")
			}
			wantIs(t, err, context.Canceled)
			wantIdle(t, l)
			wantFree(t, store.Store, "k")
		}
	})
}

// GL-43: a limit on waiting is not spent faster by losing races.
func TestMaxWaitBoundsTheWaitingOfEachOfManyContenders(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := memstore.New()
		held := acquire(t, picket.New(store), "k")
		done := make(chan time.Duration)
		for range 8 {
			l := picket.New(store, picket.WithMaxWait(20*time.Second))
			go func() {
				var err error
				d := took(func() { _, err = l.Acquire(t.Context(), "k") })
				busy, ok := errors.AsType[*picket.BusyError](err)
				if !ok || len(busy.Unwrap()) != 0 {
					t.Errorf("want a plain *BusyError, got %v", err)
				}
				done <- d
			}()
		}
		for range 8 {
			if d := <-done; d != 20*time.Second {
				t.Errorf("waited %s, want its real 20s", d)
			}
		}
		release(t, held)
		synctest.Wait()
		wantFree(t, store, "k")
	})
}

// A request that MaxWait cuts off says nothing of a store that has answered until then.
func TestMaxWaitThatEndsDuringARequestIsBusy(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := onMemory()
		store.acquire = func(ctx context.Context, c picket.Claim) (picket.Grant, error) {
			select {
			case <-time.After(40 * time.Millisecond):
				return store.Store.Acquire(ctx, c)
			case <-ctx.Done():
				return picket.Grant{}, ctx.Err()
			}
		}
		held := acquire(t, picket.New(store.Store), "k")
		for wait := 100 * time.Millisecond; wait < 700*time.Millisecond; wait += 7 * time.Millisecond {
			l := picket.New(store, picket.WithMaxWait(wait))
			var err error
			if d := took(func() { _, err = l.Acquire(t.Context(), "k") }); d != wait {
				t.Errorf("MaxWait %s: returned after %s", wait, d)
			}
			if !errors.Is(err, picket.ErrBusy) || errors.Is(err, picket.ErrUnavailable) {
				t.Errorf("MaxWait %s: %v", wait, err)
			}
			wantIdle(t, l)
		}
		release(t, held)
	})
}

// W4: a budget of 300 ms while the store is down gives an outage, not contention, in 300 ms.
func TestABudgetOnADeadStoreIsAnOutage(t *testing.T) {
	for name, answer := range map[string]func(context.Context) error{
		"it hangs":    hang,
		"it fails":    func(context.Context) error { return errWire },
		"it is gone":  func(context.Context) error { return dialError{} },
		"try later":   func(context.Context) error { return picket.ErrUnavailable },
		"it is slow":  func(ctx context.Context) error { time.Sleep(10 * time.Millisecond); return errWire },
		"ctx is done": func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				store := onMemory()
				store.acquire = func(ctx context.Context, _ picket.Claim) (picket.Grant, error) { return picket.Grant{}, answer(ctx) }
				l := picket.New(store)
				for kind, try := range map[string]func(context.Context) error{
					"Acquire":    func(ctx context.Context) error { _, err := l.Acquire(ctx, "k"); return err },
					"TryAcquire": func(ctx context.Context) error { _, err := l.TryAcquire(ctx, "k"); return err },
					"MaxWait": func(context.Context) error {
						_, err := l.With(picket.WithMaxWait(300*time.Millisecond)).Acquire(t.Context(), "k")
						return err
					},
				} {
					ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
					var err error
					if d := took(func() { err = try(ctx) }); d < 300*time.Millisecond || d > 320*time.Millisecond {
						t.Errorf("%s returned after %s", kind, d)
					}
					cancel()
					wantIs(t, err, picket.ErrUnavailable)
					if errors.Is(err, picket.ErrBusy) || strings.Contains(err.Error(), "\n") {
						t.Errorf("%s: %q", kind, err)
					}
					if kind != "MaxWait" {
						wantIs(t, err, context.DeadlineExceeded)
					}
					synctest.Wait()
				}
				wantIdle(t, l)
			})
		})
	}
}

// dialError is a dial that was refused.
type dialError struct{}

func (dialError) Error() string { return "connection refused" }
func (dialError) Unsent() bool  { return true }

func TestWhatWasNotSentIsNotUndone(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := onMemory()
		store.acquire = func(context.Context, picket.Claim) (picket.Grant, error) { return picket.Grant{}, dialError{} }
		l := picket.New(store)
		_, err := l.TryAcquire(t.Context(), "k")
		wantIs(t, err, picket.ErrUnavailable)
		wantIdle(t, l)
		if n := store.releases.Load(); n != 0 {
			t.Errorf("%d releases of a claim that never left", n)
		}
	})
}

func TestTryAcquireGivesUpAfterThreeSecondsWithoutAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := onMemory()
		store.acquire = func(ctx context.Context, _ picket.Claim) (picket.Grant, error) { return picket.Grant{}, hang(ctx) }
		l := picket.New(store)
		var err error
		if d := took(func() { _, err = l.TryAcquire(t.Context(), "k") }); d != 3*time.Second {
			t.Errorf("gave up after %s", d)
		}
		wantIs(t, err, picket.ErrUnavailable)
		wantIdle(t, l)
	})
}

func TestAcquireGivesUpAfterOneTTLOfSilence(t *testing.T) {
	for _, ttl := range []time.Duration{200 * time.Millisecond, 5 * time.Second, 30 * time.Second} {
		t.Run(ttl.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				store := onMemory()
				l := picket.New(store, picket.WithTTL(ttl))
				held := acquire(t, picket.New(store.Store, picket.WithTTL(time.Hour)), "k")
				dead := time.Now().Add(time.Minute)
				store.acquire = func(ctx context.Context, c picket.Claim) (picket.Grant, error) {
					if time.Now().Before(dead) {
						return store.Store.Acquire(ctx, c)
					}
					return picket.Grant{}, hang(ctx)
				}
				// Five wait; the silence counts from the last answer, for each of them.
				done := make(chan time.Duration)
				for range 5 {
					go func() {
						_, err := l.Acquire(t.Context(), "k")
						wantIs(t, err, picket.ErrUnavailable)
						done <- time.Since(dead)
					}()
				}
				for range 5 {
					if d := <-done; d < ttl-pollBound || d > ttl+time.Second {
						t.Errorf("gave up %s after the last answer, want %s", d, ttl)
					}
				}
				wantIdle(t, l)
				release(t, held)
			})
		})
	}
}

func TestAnOutageShorterThanTheTTLIsWaitedOut(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := memstore.New()
		l := picket.New(store)
		store.Fail(errWire)
		time.AfterFunc(20*time.Second, func() { store.Fail(nil) })
		if d := took(func() { release(t, acquire(t, l, "k")) }); d < 20*time.Second || d > 20*time.Second+pollBound {
			t.Errorf("acquired after %s", d)
		}
	})
}

func TestARefusalIsFinal(t *testing.T) {
	for _, refusal := range []error{picket.ErrRefused, picket.ErrUnsupported, picket.ErrInvalid} {
		t.Run(refusal.Error(), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				store := onMemory()
				store.acquire = func(context.Context, picket.Claim) (picket.Grant, error) { return picket.Grant{}, refusal }
				l := picket.New(store)
				for _, acquire := range []func(context.Context, string) (*picket.Lease, error){l.Acquire, l.TryAcquire} {
					var err error
					if d := took(func() { _, err = acquire(t.Context(), "k") }); d != 0 {
						t.Errorf("asked again for %s", d)
					}
					wantIs(t, err, refusal)
				}
				wantIdle(t, l)
				if a, r := store.acquires.Load(), store.releases.Load(); a != 2 || r != 0 {
					t.Errorf("%d acquires, %d releases", a, r)
				}
			})
		})
	}
}

// A store that says busy without the facts breaks its contract; that must not break the program.
func TestABareBusyIsStillBusy(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := onMemory()
		store.acquire = func(context.Context, picket.Claim) (picket.Grant, error) { return picket.Grant{}, picket.ErrBusy }
		l := picket.New(store, picket.WithMaxWait(time.Second))
		_, err := l.Acquire(t.Context(), "k")
		if busy, ok := errors.AsType[*picket.BusyError](err); !ok || busy.Key != "k" {
			t.Errorf("got %v", err)
		}
		_, err = l.TryAcquire(t.Context(), "k")
		wantIs(t, err, picket.ErrBusy)
		synctest.Wait()
	})
}

// L7, redisson#2714, #4368: cancelled at a random microsecond, an acquire gives a lease or an error and then leaves nothing behind.
func TestCancelledAtAnyMomentAnAcquireLeavesNothingBehind(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := &listening{scripted: onMemory()}
		latency := func(ctx context.Context) error {
			select {
			case <-time.After(time.Duration(rand.IntN(300)) * time.Microsecond):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		store.acquire = func(ctx context.Context, c picket.Claim) (picket.Grant, error) {
			if err := latency(ctx); err != nil {
				return picket.Grant{}, err
			}
			g, err := store.Store.Acquire(ctx, c)
			if late := latency(ctx); late != nil {
				return picket.Grant{}, late
			}
			return g, err
		}
		l := picket.New(store)
		granted, refused := 0, 0
		for round := range 10_000 {
			ctx, cancel := context.WithCancel(t.Context())
			stop := time.AfterFunc(time.Duration(rand.IntN(800))*time.Microsecond, cancel)
			how := l.Acquire
			if round%2 == 0 {
				how = l.TryAcquire
			}
			le, err := how(ctx, "k")
			switch {
			case (le == nil) == (err == nil):
				t.Fatalf("lease %v and error %v", le, err)
			case err == nil:
				granted++
				release(t, le)
			default:
				refused++
				wantIs(t, err, context.Canceled)
			}
			stop.Stop()
			cancel()
			synctest.Wait()
			wantFree(t, store, "k")
		}
		if granted < 1000 || refused < 1000 {
			t.Errorf("%d granted, %d refused: the moments are badly chosen", granted, refused)
		}
		if n := store.renews.Load(); n != 0 {
			t.Errorf("%d renewals of leases that nobody had for long", n)
		}
		wantIdle(t, l)
	})
}

// L15, redis-py#4279; GL-30: what makes no sense is refused before anything is sent.
func TestBadOptionsAreReportedByEveryAcquireAndNothingIsSent(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]picket.Option{
		"TTL 0":                   {picket.WithTTL(0)},
		"TTL -1s":                 {picket.WithTTL(-time.Second)},
		"TTL 500us":               {picket.WithTTL(500 * time.Microsecond)},
		"TTL 99.9ms":              {picket.WithTTL(99900 * time.Microsecond)},
		"TTL 24h and more":        {picket.WithTTL(24*time.Hour + 1)},
		"TTL of 292 years":        {picket.WithTTL(math.MaxInt64)},
		"MaxWait 0":               {picket.WithMaxWait(0)},
		"MaxWait -1s":             {picket.WithMaxWait(-time.Second)},
		"grace -1s":               {picket.WithGrace(-time.Second)},
		"grace over half":         {picket.WithTTL(time.Second), picket.WithGrace(489 * time.Millisecond)},
		"grace over half of hold": {picket.WithMaxHold(time.Second), picket.WithGrace(489 * time.Millisecond)},
		"drift below 0":           {picket.WithDrift(-0.1, 0)},
		"drift over half":         {picket.WithDrift(0.51, 0)},
		"drift NaN":               {picket.WithDrift(math.NaN(), 0)},
		"drift -1ms":              {picket.WithDrift(0, -time.Millisecond)},
		"MaxHold 1ms":             {picket.WithMaxHold(time.Millisecond)},
		"MaxHold -1s":             {picket.WithMaxHold(-time.Second)},
		"MinHold -1s":             {picket.WithMinHold(-time.Second)},
		"MinHold of 292 years":    {picket.WithMinHold(math.MaxInt64)},
		"LockDelay -1s":           {picket.WithLockDelay(-time.Second)},
		"LockDelay 25h":           {picket.WithLockDelay(25 * time.Hour)},
		"label too long":          {picket.WithLabel(strings.Repeat("x", 129))},
		"label with escape":       {picket.WithLabel("\x1b[2J")},
		"label not UTF-8":         {picket.WithLabel("\xff")},
		"nil option":              {nil},
		"bad hidden by good":      {picket.WithTTL(0), picket.WithTTL(time.Second)},
	} {
		store := onMemory()
		for how, l := range map[string]*picket.Locker{"New": picket.New(store, opts...), "With": picket.New(store).With(opts...)} {
			ctx := t.Context()
			nothing := func(context.Context, *picket.Lease) error { t.Error("fn has run"); return nil }
			_, acquired := l.Acquire(ctx, "k")
			_, tried := l.TryAcquire(ctx, "k")
			_, inspected := l.Inspect(ctx, "k")
			for _, err := range []error{acquired, tried, inspected, l.Do(ctx, "k", nothing), l.TryDo(ctx, "k", nothing)} {
				if !errors.Is(err, picket.ErrInvalid) || strings.Contains(err.Error(), "\n") {
					t.Errorf("%s by %s: %v", name, how, err)
				}
			}
		}
		if n := store.acquires.Load(); n != 0 {
			t.Errorf("%s: %d requests were sent", name, n)
		}
	}
}

func TestTheLimitsOfOptionsAreInside(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		for name, opts := range map[string][]picket.Option{
			"least TTL":       {picket.WithTTL(100 * time.Millisecond)},
			"longest TTL":     {picket.WithTTL(24 * time.Hour)},
			"half of the TTL": {picket.WithTTL(time.Second), picket.WithGrace(488 * time.Millisecond)},
			"least MaxHold":   {picket.WithMaxHold(100 * time.Millisecond)},
			"no MaxHold":      {picket.WithMaxHold(0)},
			"endless MaxHold": {picket.WithMaxHold(math.MaxInt64)},
			"no margins":      {picket.WithDrift(0, 0), picket.WithGrace(0)},
			"longest label":   {picket.WithLabel(strings.Repeat("x", 128))},
			"label in script": {picket.WithLabel("резерв 備份")},
		} {
			store := memstore.New()
			l := picket.New(store, opts...)
			time.Sleep(time.Millisecond) // the clock has begun
			le, err := l.TryAcquire(t.Context(), "k")
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if err := le.Check(); err != nil || le.Remaining() <= 0 || le.Remaining() > 24*time.Hour {
				t.Errorf("%s: %v, %s remain", name, err, le.Remaining())
			}
			release(t, le)
		}
	})
}

func TestGraceAndDriftOverHalfShowTheirSum(t *testing.T) {
	t.Parallel()
	_, err := picket.New(memstore.New(), picket.WithGrace(15*time.Second)).TryAcquire(t.Context(), "k")
	wantIs(t, err, picket.ErrInvalid)
	if want := "grace 15s + drift 302ms = 15.302s is more than half of the TTL 30s"; !strings.Contains(err.Error(), want) {
		t.Errorf("%q does not show %q", err, want)
	}
}

func TestKeysAreAnyTextOfOneTo512Bytes(t *testing.T) {
	t.Parallel()
	l := picket.New(memstore.New())
	for _, key := range []string{"", strings.Repeat("k", 513)} {
		_, err := l.TryAcquire(t.Context(), key)
		wantIs(t, err, picket.ErrInvalid)
		_, err = l.Inspect(t.Context(), key)
		wantIs(t, err, picket.ErrInvalid)
	}
	for _, key := range []string{"k", strings.Repeat("k", 512), "a b", "\x00", "\xff", "{x}", "ключ\n"} {
		release(t, acquire(t, l, key))
	}
}

func TestANilStoreIsInvalid(t *testing.T) {
	t.Parallel()
	_, err := picket.New(nil).Acquire(t.Context(), "k")
	wantIs(t, err, picket.ErrInvalid)
}

func TestInspectOfAFreeKeyIsAStatus(t *testing.T) {
	t.Parallel()
	l := picket.New(memstore.New())
	if st, err := l.Inspect(t.Context(), "k"); err != nil || st.State != picket.StatusFree || st.Key != "k" {
		t.Errorf("%+v, %v", st, err)
	}
	le := acquire(t, l, "k")
	if st, err := l.Inspect(t.Context(), "k"); err != nil || st.State != picket.StatusHeld || st.Token != le.Token() || st.Holder.ID != le.Holder().ID {
		t.Errorf("%+v, %v", st, err)
	}
	release(t, le)
}

func TestWithSharesTheQueueAndCostsLittle(t *testing.T) {
	store := memstore.New()
	l := picket.New(store)
	if n := testing.AllocsPerRun(100, func() { l.With() }); n > 1 {
		t.Errorf("%v allocations", n)
	}
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		l := picket.New(store, picket.WithTTL(time.Minute))
		held := acquire(t, l, "k")
		order := make(chan string, 3)
		for _, label := range []string{"first", "second", "third"} {
			kind := l.With(picket.WithLabel(label), picket.WithTTL(time.Duration(len(label))*time.Second))
			go func() {
				le := acquire(t, kind, "k")
				if got, want := le.Holder().Label, label; got != want {
					t.Errorf("label %q, want %q", got, want)
				}
				if st, err := store.Inspect(t.Context(), "k"); err != nil || st.TTL != time.Duration(len(label))*time.Second {
					t.Errorf("%s has TTL %s, %v", label, st.TTL, err)
				}
				order <- label
				release(t, le)
			}()
			synctest.Wait()
		}
		if st, _ := store.Inspect(t.Context(), "k"); st.Waiters != 1 {
			t.Errorf("%d places in the store's queue for three waiters of one process", st.Waiters)
		}
		release(t, held)
		for _, want := range []string{"first", "second", "third"} {
			if got := <-order; got != want {
				t.Errorf("%s came before %s", got, want)
			}
		}
		if le := acquire(t, l, "k"); le.Holder().Label != "" {
			t.Error("With changed its Locker")
		} else {
			release(t, le)
		}
		wantIdle(t, l)
	})
}

func TestALockerWithoutLeasesAndWaitersOwnsNothing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := picket.New(memstore.New(), picket.WithTTL(time.Second))
		wantIdle(t, l)
		held := acquire(t, l, "k")
		waited := make(chan struct{})
		go func() { defer close(waited); release(t, acquire(t, l, "k")) }()
		time.Sleep(time.Minute)
		release(t, held)
		<-waited
		// The bubble also fails if a goroutine is left when this function returns.
		wantIdle(t, l)
	})
}
