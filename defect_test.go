package picket_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/picket-go/picket"
	"github.com/picket-go/picket/memstore"
)

// The lease's own context is what a deferred release often has at hand. It ends when the release begins, and that is not the caller's leaving.
func TestALeaseIsReleasedWithItsOwnContext(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := onMemory()
		l := picket.New(store)
		for range 50 {
			le := acquire(t, l, "k")
			if err := le.Release(le.Context(t.Context())); err != nil {
				t.Fatal(err)
			}
			wantFree(t, store, "k")
		}
		wantIdle(t, l)
	})
}

func TestAnEndedCtxIsNoObstacleToASecondReleaseAtTheSameTime(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := onMemory()
		answer := make(chan struct{})
		store.release = func(ctx context.Context, c picket.Claim) error {
			<-answer
			return store.Store.Release(ctx, c)
		}
		le := acquire(t, picket.New(store), "k")
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				if err := le.Release(ended); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		close(answer)
		wg.Wait()
	})
}

// A renewal that was under way during a release whose replies were lost says "not yours": the release has worked, nobody has lost anything.
func TestARenewalThatComesBackDuringAnUnheardReleaseLosesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := onMemory()
		hold := make(chan struct{})
		store.renew = func(ctx context.Context, cs []picket.Claim, report func(int, error)) {
			<-hold
			store.Store.Renew(context.WithoutCancel(ctx), cs, report)
		}
		lost := true
		store.release = func(ctx context.Context, c picket.Claim) error {
			err := store.Store.Release(ctx, c)
			if lost {
				return errWire
			}
			return err
		}
		le := acquire(t, picket.New(store), "k")
		renewed := make(chan error, 1)
		go func() { renewed <- le.Renew(t.Context(), 0) }()
		synctest.Wait()
		wantIs(t, le.Release(t.Context()), picket.ErrUncertain)
		close(hold)
		<-renewed
		lost = false
		release(t, le)
	})
}

// rueidis#630: what a short TTL makes short is the lease, not the patience of those who wait for it.
func TestOneFailedPollIsNoOutage(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := onMemory()
		holder := acquire(t, picket.New(store.Store), "k")
		polls := 0
		store.acquire = func(ctx context.Context, c picket.Claim) (picket.Grant, error) {
			if polls++; polls%3 == 0 {
				return picket.Grant{}, errWire
			}
			return store.Store.Acquire(ctx, c)
		}
		time.AfterFunc(20*time.Second, func() { release(t, holder) })
		release(t, acquire(t, picket.New(store, picket.WithTTL(200*time.Millisecond)), "k"))
		if polls < 6 {
			t.Errorf("%d polls", polls)
		}
	})
}

func TestAMaxWaitOfAnyLengthAsksAtLeastOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		for _, d := range []time.Duration{1, time.Microsecond, math.MaxInt64} {
			release(t, acquire(t, picket.New(memstore.New(), picket.WithMaxWait(d)), "k"))
		}
	})
}

func TestRenewToALongerTTLKeepsAMaxHoldLease(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		le := acquire(t, picket.New(memstore.New(), picket.WithMaxHold(5*time.Second)), "k")
		before := le.Remaining()
		if err := le.Renew(t.Context(), 30*time.Second); err != nil {
			t.Fatal(err)
		}
		if le.Remaining() < before {
			t.Errorf("remaining fell from %s to %s", before, le.Remaining())
		}
		release(t, le)
	})
}

func TestAFixedLeaseWithMaxHoldEndsForMaxHold(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		le := acquire(t, picket.New(memstore.New(), picket.WithMaxHold(time.Second), picket.WithoutRenewal()), "k")
		<-le.Done()
		lost, ok := errors.AsType[*picket.LostError](le.Check())
		if !ok || lost.Reason != picket.ReasonMaxHold {
			t.Errorf("got %v", le.Check())
		}
		_ = le.Release(t.Context())
	})
}

// A store whose grants are over when they arrive is as good as no store, and is not asked without pause.
func TestGrantsThatAreAlwaysLateAreAnOutage(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := onMemory()
		store.acquire = func(ctx context.Context, c picket.Claim) (picket.Grant, error) {
			g, err := store.Store.Acquire(ctx, c)
			g.TTL = time.Millisecond
			return g, err
		}
		l := picket.New(store, picket.WithTTL(time.Second))
		_, err := l.Acquire(t.Context(), "k")
		wantIs(t, err, picket.ErrUnavailable)
		_, err = l.TryAcquire(t.Context(), "k")
		wantIs(t, err, picket.ErrUnavailable)
		if n := store.acquires.Load(); n > 100 {
			t.Errorf("%d requests", n)
		}
	})
}

func TestALeaseMayBeReleasedAfterShutdownLostPatience(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := memstore.New()
		l := picket.New(store)
		le := acquire(t, l, "k")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		wantIs(t, l.Shutdown(ctx), context.DeadlineExceeded)
		release(t, le)
		wantFree(t, store, "k")
	})
}

func TestObserversHearOnlyOfLeasesThatSomebodyWasToldOf(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := onMemory()
		ctx, cancel := context.WithCancel(t.Context())
		store.acquire = func(call context.Context, c picket.Claim) (picket.Grant, error) {
			g, err := store.Store.Acquire(call, c)
			cancel()
			return g, err
		}
		l := picket.New(store, picket.WithObserver(picket.Observer{
			ReleaseEnd:  func(context.Context, picket.ReleaseEvent) { t.Error("a release") },
			LeaseChange: func(picket.LeaseEvent) { t.Error("a change") },
		}))
		_, err := l.Acquire(ctx, "k")
		wantIs(t, err, context.Canceled)
		synctest.Wait()
		wantFree(t, store, "k")
	})
}

// Our own bound is no deadline of the caller's.
func TestAnOutageIsNotTheCallersDeadline(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := onMemory()
		l := picket.New(store)
		le := acquire(t, l, "k")
		store.renew = func(ctx context.Context, _ []picket.Claim, report func(int, error)) { report(0, hang(ctx)) }
		store.inspect = func(ctx context.Context, _ string) (picket.Status, error) { return picket.Status{}, hang(ctx) }
		store.release = func(ctx context.Context, _ picket.Claim) error { return hang(ctx) }
		_, confirm := le.Confirm(t.Context())
		_, inspect := l.Inspect(t.Context(), "k")
		for _, err := range []error{le.Renew(t.Context(), 0), confirm, inspect} {
			wantIs(t, err, picket.ErrUnavailable)
			if errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v", err)
			}
		}
		if err := le.Release(context.WithoutCancel(t.Context())); !errors.Is(err, picket.ErrUncertain) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
	})
}

func TestWhatTheStoreRefusesNamesTheKeyOnOneLine(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		refuse := errors.Join(picket.ErrRefused, errors.New("NOPERM\r\nask an operator"))
		store := onMemory()
		l := picket.New(store)
		le := acquire(t, l, "some key")
		store.acquire = func(context.Context, picket.Claim) (picket.Grant, error) { return picket.Grant{}, refuse }
		store.renew = func(_ context.Context, _ []picket.Claim, report func(int, error)) { report(0, refuse) }
		store.release = func(context.Context, picket.Claim) error { return refuse }
		store.inspect = func(context.Context, string) (picket.Status, error) { return picket.Status{}, refuse }
		_, try := l.TryAcquire(t.Context(), "some key")
		_, wait := l.Acquire(t.Context(), "some key")
		_, inspect := l.Inspect(t.Context(), "some key")
		_, confirm := le.Confirm(t.Context())
		ran := l.With().Do(t.Context(), "another key", func(context.Context, *picket.Lease) error { return nil })
		for _, err := range []error{try, wait, inspect, confirm, le.Renew(t.Context(), 0), le.Release(t.Context()), ran} {
			wantIs(t, err, picket.ErrRefused)
			if !strings.Contains(err.Error(), " key\"") {
				t.Errorf("%q does not name the key", err)
			}
		}
	})
}

func TestTwoReissuesAtOnceLeaveTheLargerToken(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		base := memstore.New()
		slow := make(chan struct{})
		store := &reissuing{base, slow}
		l := picket.New(store)
		le := acquire(t, l, "k")
		above := time.Now().Add(time.Hour).UnixMicro()
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = le.Reissue(t.Context(), above) })
		synctest.Wait()
		second, err := le.Reissue(t.Context(), above+10)
		if err != nil {
			t.Fatal(err)
		}
		close(slow)
		wg.Wait()
		if le.Token() != second {
			t.Errorf("token %d, want %d", le.Token(), second)
		}
	})
}

// reissuing delays the reply of its first Reissue.
type reissuing struct {
	*memstore.Store
	slow chan struct{}
}

func (s *reissuing) Reissue(ctx context.Context, c picket.Claim, above int64) (picket.Grant, error) {
	g, err := s.Store.Reissue(ctx, c, above)
	if slow := s.slow; slow != nil {
		s.slow = nil
		<-slow
	}
	return g, err
}

func TestDoTellsOfItsOwnLossAlsoWhenFnTellsOfAnother(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := memstore.New()
		l := picket.New(store, picket.WithTTL(time.Second))
		err := l.Do(t.Context(), "outer", func(ctx context.Context, outer *picket.Lease) error {
			store.Lose("outer", picket.ReasonStolen)
			<-ctx.Done()
			return &picket.LostError{Key: "inner", Reason: picket.ReasonBroken}
		})
		if !strings.Contains(err.Error(), `"outer"`) || !strings.Contains(err.Error(), `"inner"`) {
			t.Errorf("got %v", err)
		}
	})
}

func TestDoIsNotGoodWhenFnGaveTheLeaseBack(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		err := picket.New(memstore.New()).Do(t.Context(), "k", func(ctx context.Context, le *picket.Lease) error { return le.Release(ctx) })
		wantIs(t, err, picket.ErrReleased)
	})
}

func TestAStoreThatPanicsLeavesTheKeyObtainable(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := onMemory()
		l := picket.New(store)
		store.acquire = func(context.Context, picket.Claim) (picket.Grant, error) { panic("a bug of the store") }
		for _, how := range []func(context.Context, string) (*picket.Lease, error){l.Acquire, l.TryAcquire} {
			func() {
				defer func() { _ = recover() }()
				_, _ = how(t.Context(), "k")
			}()
		}
		store.acquire = nil
		release(t, acquire(t, l, "k"))
		if err := l.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// The hooks of one lease come in order also when one of them releases it.
func TestAReleaseInsideAHookIsToldAfterTheHook(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := onMemory()
		var told []string
		l := picket.New(store, picket.WithTTL(time.Second), picket.WithObserver(picket.Observer{
			LeaseChange: func(e picket.LeaseEvent) {
				if e.To == picket.StateJeopardy {
					_ = e.Lease.Release(context.WithoutCancel(t.Context()))
				}
				told = append(told, e.To.String())
			},
			ReleaseEnd: func(context.Context, picket.ReleaseEvent) { told = append(told, "release") },
		}))
		store.renew = func(context.Context, []picket.Claim, func(int, error)) {}
		acquire(t, l, "k")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if want := []string{"jeopardy", "released", "release"}; !slices.Equal(told, want) {
			t.Errorf("told %v, want %v", told, want)
		}
	})
}

// A MaxWait that ends for a waiter that has not asked yet, while its process has a turn, must neither spin nor be forgotten.
func TestAMaxWaitThatEndsInsideALocalTurnEndsTheWaiting(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := onHandingMemory()
		l := picket.New(store)
		first := acquire(t, l, "k")
		var wg sync.WaitGroup
		wg.Go(func() {
			le := acquire(t, l, "k")
			time.Sleep(time.Second)
			release(t, le)
		})
		synctest.Wait()
		began := time.Now()
		wg.Go(func() {
			_, err := l.With(picket.WithMaxWait(30*time.Millisecond)).Acquire(t.Context(), "k")
			wantIs(t, err, picket.ErrBusy)
			if took := time.Since(began); took > 200*time.Millisecond {
				t.Errorf("took %s", took)
			}
		})
		synctest.Wait()
		release(t, first)
		wg.Wait()
	})
}
