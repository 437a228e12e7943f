package picket_test

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/picket-go/picket"
	"github.com/picket-go/picket/memstore"
)

// GL-06: a ctx that has already ended is no obstacle; its values are used.
func TestReleaseWorksWithAnEndedCtx(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		type trace struct{}
		store := onMemory()
		store.release = func(ctx context.Context, c picket.Claim) error {
			if ctx.Value(trace{}) != "id" || ctx.Err() != nil {
				t.Errorf("value %v, %v", ctx.Value(trace{}), ctx.Err())
			}
			return store.Store.Release(ctx, c)
		}
		l := picket.New(store)
		le := acquire(t, l, "k")
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), trace{}, "id"))
		cancel()
		if err := le.Release(ctx); err != nil {
			t.Error(err)
		}
		wantFree(t, store.Store, "k")
		wantIdle(t, l)
	})
}

func TestACtxThatEndsLaterEndsTheWaitingNotTheRelease(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := onMemory()
		slow := func(ctx context.Context, c picket.Claim) error {
			select {
			case <-time.After(800 * time.Millisecond):
				return store.Store.Release(ctx, c)
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		store.release = slow
		l := picket.New(store)
		le := acquire(t, l, "k")
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		var err error
		if d := took(func() { err = le.Release(ctx) }); d != 100*time.Millisecond {
			t.Errorf("returned after %s", d)
		}
		wantIs(t, err, picket.ErrUncertain, context.DeadlineExceeded)
		if le.Check() == nil || !strings.Contains(err.Error(), "the key is free in") {
			t.Errorf("%v; check says %v", err, le.Check())
		}
		release(t, le)                          // waits for the one under way
		if n := store.releases.Load(); n != 2 { // the attempt that the caller left, and the one that went on without it
			t.Errorf("%d releases", n)
		}
		wantFree(t, store.Store, "k")
	})
}

// The caller's own goroutine sends the release: another one would cost more than a lock does.
func TestAReleaseTakesNoGoroutine(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := onHandingMemory()
		l := picket.New(store)
		type trace struct{}
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), trace{}, "id"))
		defer cancel()
		mine := goroutine()
		var sent []string
		store.release = func(ctx context.Context, c picket.Claim) error {
			sent = append(sent, goroutine())
			return store.Store.Release(ctx, c)
		}
		store.transfer = func(ctx context.Context, from, to picket.Claim) (picket.Grant, error) {
			sent = append(sent, goroutine())
			return store.Store.(picket.Transferer).Transfer(ctx, from, to)
		}
		le := acquire(t, l, "k")
		next := make(chan *picket.Lease)
		go func() { next <- acquire(t, l, "k") }()
		time.Sleep(time.Second)
		for range 2 {
			if err := le.Release(ctx); err != nil {
				t.Fatal(err)
			}
			if len(sent) == 1 {
				le = <-next
			}
		}
		if !slices.Equal(sent, []string{mine, mine}) {
			t.Errorf("sent by %q, want all by %q", sent, mine)
		}
	})
}

// goroutine names the one that calls it.
func goroutine() string {
	text := make([]byte, 64)
	name, _, _ := bytes.Cut(text[:runtime.Stack(text, false)], []byte(" ["))
	return string(name)
}

func TestFurtherReleasesReturnTheFirstResult(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := &scripted{Store: memstore.New()}
		memory := store.Store.(*memstore.Store)
		l := picket.New(store)
		freed, lost := acquire(t, l, "freed"), acquire(t, l, "lost")
		memory.Lose("lost", picket.ReasonStolen)
		for range 3 {
			release(t, freed)
			wantReason(t, lost.Release(t.Context()), picket.ReasonStolen)
		}
		if n := store.releases.Load(); n != 2 {
			t.Errorf("%d releases for two leases", n)
		}
	})
}

func TestReleaseTriesAgainAfterUncertain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		memory := memstore.New()
		l := picket.New(memory)
		le := acquire(t, l, "k")
		memory.Fail(errWire)
		var err error
		if d := took(func() { err = le.Release(t.Context()) }); d < 2*time.Second || d > 3*time.Second {
			t.Errorf("tried for %s", d)
		}
		wantIs(t, err, picket.ErrUncertain, errWire)
		memory.Fail(nil)
		release(t, le)
		wantFree(t, memory, "k")
		wantIdle(t, l)
	})
}

func TestReleaseWaitsNoLongerThanTheRemainingLease(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := onMemory()
		store.release = func(ctx context.Context, _ picket.Claim) error { return hang(ctx) }
		l := picket.New(store, picket.WithTTL(time.Second))
		le := acquire(t, l, "k")
		var err error
		if d := took(func() { err = le.Release(t.Context()) }); d > time.Second {
			t.Errorf("waited %s", d)
		}
		wantIs(t, err, picket.ErrUncertain)
	})
}

// L4, GL-04, redisson#4178: "not yours" in answer to the repetition of a release that went unanswered means that it worked.
func TestARepeatedReleaseThatFindsNothingHasWorked(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := onMemory()
		var cut atomic.Bool
		store.release = func(ctx context.Context, c picket.Claim) error {
			err := store.Store.Release(ctx, c)
			if cut.CompareAndSwap(false, true) {
				return errWire // it was executed
			}
			return err
		}
		other := picket.New(store.Store)
		l := picket.New(store)
		le := acquire(t, l, "k")
		got := make(chan *picket.Lease)
		go func() { got <- acquire(t, other, "k") }()
		synctest.Wait()
		release(t, le)
		next := <-got
		if next.Check() != nil || store.releases.Load() != 2 {
			t.Errorf("%v after %d releases", next.Check(), store.releases.Load())
		}
		if d, err := next.Confirm(t.Context()); err != nil || d <= 0 {
			t.Errorf("the next holder has %s, %v", d, err)
		}
		release(t, next)
	})
}

// GL-17, redsync#7.
func TestRenewAfterReleaseIsReleased(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := onMemory()
		l := picket.New(store)
		le := acquire(t, l, "k")
		release(t, le)
		wantIs(t, le.Renew(t.Context(), 0), picket.ErrReleased)
		_, err := le.Confirm(t.Context())
		wantIs(t, err, picket.ErrReleased)
		_, err = le.Reissue(t.Context(), 1)
		wantIs(t, err, picket.ErrReleased)
		wantIs(t, le.Check(), picket.ErrReleased)
		if errors.Is(le.Check(), picket.ErrLost) || le.Remaining() != 0 || store.renews.Load() != 0 {
			t.Errorf("%v, %s remain, %d renewals", le.Check(), le.Remaining(), store.renews.Load())
		}
		wantFree(t, store.Store, "k")
	})
}

func TestAfterALossTheReleaseIsStillSentAndSaysLost(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := onMemory()
		var silent atomic.Bool
		store.renew = func(ctx context.Context, cs []picket.Claim, report func(int, error)) {
			if silent.Load() {
				return
			}
			store.Store.Renew(ctx, cs, report)
		}
		l := picket.New(store, picket.WithTTL(time.Second), picket.WithLockDelay(time.Hour))
		le := acquire(t, l, "k")
		silent.Store(true)
		<-le.Done()
		time.Sleep(100 * time.Millisecond) // over here, and at the store, where the key cools down
		wantReason(t, le.Check(), picket.ReasonUnreachable)
		wantReason(t, le.Release(t.Context()), picket.ReasonUnreachable)
		if n := store.releases.Load(); n != 1 {
			t.Errorf("%d releases", n)
		}
		wantFree(t, store.Store, "k")
		wantIdle(t, l)
	})
}

// L5, etcd#22082: the late release of a lease that is over leaves the next holder alone, also in one process with one name.
func TestALateReleaseLeavesTheNextHolderAlone(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := memstore.New()
		l := picket.New(store, picket.WithTTL(time.Second), picket.WithoutRenewal())
		old := acquire(t, l, "k")
		next := acquire(t, l, "k") // waits until it is over
		wantIs(t, old.Release(t.Context()), picket.ErrLost)
		if _, err := next.Confirm(t.Context()); err != nil {
			t.Error(err)
		}
		if old.Token() >= next.Token() {
			t.Errorf("token %d, then %d", old.Token(), next.Token())
		}
		release(t, next)
	})
}

func TestContextsEndBeforeTheReleaseIsSent(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := onMemory()
		l := picket.New(store)
		le := acquire(t, l, "k")
		ctx := le.Context(t.Context())
		store.release = func(c context.Context, claim picket.Claim) error {
			if !errors.Is(context.Cause(ctx), picket.ErrReleased) {
				t.Errorf("the work's context says %v while the release is sent", context.Cause(ctx))
			}
			return store.Store.Release(c, claim)
		}
		release(t, le)
	})
}

// redisson#7272: a renewal in flight while the lease is released neither brings it back nor reports a loss.
func TestARenewalInFlightDoesNotReviveAReleasedLease(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := onMemory()
		store.renew = func(ctx context.Context, cs []picket.Claim, report func(int, error)) {
			time.Sleep(500 * time.Millisecond)
			store.Store.Renew(ctx, cs, report)
		}
		l := picket.New(store, picket.WithObserver(picket.Observer{LeaseChange: func(e picket.LeaseEvent) {
			if e.To != picket.StateReleased {
				t.Errorf("%v to %v: %v", e.From, e.To, e.Err)
			}
		}}))
		le := acquire(t, l, "k")
		time.Sleep(10*time.Second + 100*time.Millisecond)
		release(t, le)
		time.Sleep(time.Minute)
		wantIs(t, le.Check(), picket.ErrReleased)
		wantFree(t, store.Store, "k")
		if n := store.renews.Load(); n != 1 {
			t.Errorf("%d renewals", n)
		}
	})
}

// A release that finds the lease over tells an observer, who may well release it himself.
func TestAnObserverMayReleaseTheLeaseThatAReleaseFindsOver(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var m machine
		l := picket.New(memstore.New(), picket.WithObserver(picket.Observer{LeaseChange: func(e picket.LeaseEvent) {
			_ = e.Lease.Release(context.WithoutCancel(t.Context()))
			_ = e.Lease.Check()
			_ = e.Lease.Context(t.Context())
		}}))
		picket.SetAsleep(l, m.asleep)
		le := acquire(t, l, "k")
		m.sleep(28500 * time.Millisecond)
		_ = le.Remaining() // looks at the machine's sleep, and tells nobody
		done := make(chan error, 1)
		go func() { done <- le.Release(context.WithoutCancel(t.Context())) }()
		select {
		case err := <-done:
			if err != nil && !errors.Is(err, picket.ErrLost) {
				t.Error(err)
			}
		case <-time.After(time.Minute):
			t.Error("the release waits for itself")
		}
	})
}
