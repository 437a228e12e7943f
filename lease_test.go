package picket_test

import (
	"context"
	"errors"
	"os"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/picket-go/picket"
	"github.com/picket-go/picket/memstore"
)

func TestALeaseSaysWhatTheStoresRecordSays(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := memstore.New()
		le := acquire(t, picket.New(store, picket.WithLabel("nightly")), "k")
		host, _ := os.Hostname()
		h := le.Holder()
		if le.Key() != "k" || len(h.ID) != 26 || h.Host != host || h.PID != os.Getpid() || h.Label != "nightly" || !h.Since.Equal(time.Now().Truncate(time.Millisecond)) {
			t.Errorf("%q, %+v", le.Key(), h)
		}
		if st, err := store.Inspect(t.Context(), "k"); err != nil || st.Holder != h || st.Token != le.Token() {
			t.Errorf("%+v, %v; want %+v", st, err, h)
		}
		release(t, le)
	})
}

func TestRemainingIsTheTimeUntilContextsEnd(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		le := acquire(t, picket.New(memstore.New(), picket.WithoutRenewal()), "k")
		ctx := le.Context(t.Context())
		for _, after := range []time.Duration{0, 10 * time.Second, 28 * time.Second} {
			time.Sleep(after - (28198*time.Millisecond - le.Remaining()))
			if d := le.Remaining(); d != 28198*time.Millisecond-after {
				t.Errorf("%s remain after %s", d, after)
			}
		}
		time.Sleep(le.Remaining())
		if le.Remaining() != 0 {
			t.Errorf("%s remain", le.Remaining())
		}
		wantIs(t, le.Check(), picket.ErrLost)
		<-ctx.Done()
		_ = le.Release(t.Context())
	})
}

func TestCheckDoesNoIO(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := onMemory()
		le := acquire(t, picket.New(store), "k")
		store.Store.(*memstore.Store).Fail(errWire)
		for range 100 {
			if err := le.Check(); err != nil {
				t.Fatal(err)
			}
		}
		if n := store.acquires.Load() + store.renews.Load() + store.releases.Load(); n != 1 {
			t.Errorf("%d calls", n)
		}
		store.Store.(*memstore.Store).Fail(nil)
		release(t, le)
	})
}

func TestDoneIsClosedWhenTheContextsEnd(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := memstore.New()
		l := picket.New(store)
		released, lost := acquire(t, l, "released"), acquire(t, l, "lost")
		early, dropped := released.Done(), lost.Context(t.Context())
		select {
		case <-early:
			t.Error("done while it is held")
		default:
		}
		release(t, released)
		<-early
		<-released.Done()
		store.Lose("lost", picket.ReasonDeleted)
		<-lost.Done()
		<-dropped.Done()
		after := lost.Context(t.Context())
		wantReason(t, context.Cause(after), picket.ReasonDeleted)
		if le, ok := picket.FromContext(after, "lost"); !ok || le != lost {
			t.Error("the lease is not in its context")
		}
	})
}

// Contexts whose parents end are forgotten, although the lease goes on; those that are dropped end with it.
func TestContextsLeakNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		le := acquire(t, picket.New(memstore.New()), "k")
		parent, cancel := context.WithCancel(t.Context())
		before := runtime.NumGoroutine()
		for range 1000 {
			_ = le.Context(parent)
		}
		if n := runtime.NumGoroutine() - before; n > 10 {
			t.Errorf("1000 contexts started %d goroutines", n)
		}
		cancel()
		synctest.Wait()
		if n := picket.Children(le); n != 0 {
			t.Errorf("%d contexts of an ended parent are kept", n)
		}
		dropped := le.Context(context.WithoutCancel(t.Context()))
		release(t, le)
		<-dropped.Done()
		wantIs(t, context.Cause(dropped), picket.ErrReleased)
		if n := picket.Children(le); n != 0 {
			t.Errorf("%d contexts of a released lease are kept", n)
		}
	})
}

func TestConfirmAsksTheStore(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := memstore.New()
		l := picket.New(store)
		le := acquire(t, l, "k")
		time.Sleep(4 * time.Second)
		if d, err := le.Confirm(t.Context()); err != nil || d != 26*time.Second {
			t.Errorf("%s, %v", d, err)
		}
		store.Fail(errWire)
		_, err := le.Confirm(t.Context())
		wantIs(t, err, picket.ErrUnavailable, errWire)
		if le.Check() != nil {
			t.Error("no answer is not a loss")
		}
		store.Fail(nil)
		store.Lose("k", picket.ReasonStolen)
		_, err = le.Confirm(t.Context())
		wantReason(t, err, picket.ReasonStolen)
		wantReason(t, le.Check(), picket.ReasonStolen)
		wantIdle(t, l)
	})
}

// GL-29: the question for the remaining time is bounded, whatever the store does.
func TestConfirmIsBoundedByItsCtxAndThreeSeconds(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := onMemory()
		store.inspect = func(ctx context.Context, _ string) (picket.Status, error) { return picket.Status{}, hang(ctx) }
		le := acquire(t, picket.New(store), "k")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for want, ctx := range map[time.Duration]context.Context{time.Second: ctx, 3 * time.Second: t.Context()} {
			if want > time.Second {
				<-time.After(time.Second)
			}
			var err error
			if d := took(func() { _, err = le.Confirm(ctx) }); d > want {
				t.Errorf("%s for %s", d, want)
			}
			wantIs(t, err, picket.ErrUnavailable)
		}
		release(t, le)
	})
}

func TestRenewSetsTheRemainingTimeAndLaterRenewals(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := onMemory()
		l := picket.New(store)
		le := acquire(t, l, "k")
		time.Sleep(5 * time.Second)
		if err := le.Renew(t.Context(), 0); err != nil || le.Remaining() != 28198*time.Millisecond {
			t.Errorf("%v, %s remain", err, le.Remaining())
		}
		if err := le.Renew(t.Context(), time.Minute); err != nil || le.Remaining() != 57398*time.Millisecond {
			t.Errorf("%v, %s remain", err, le.Remaining())
		}
		before := store.renews.Load()
		time.Sleep(61 * time.Second)
		if n := store.renews.Load() - before; n != 3 || le.Check() != nil {
			t.Errorf("%d renewals of a minute's TTL in 61 s, %v", n, le.Check())
		}
		release(t, le)
	})
}

// Renewing to a shorter TTL shortens what the holder believes, never what the store keeps.
func TestAShorterRenewalDoesNotCutTheRecord(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := memstore.New()
		le := acquire(t, picket.New(store, picket.WithTTL(time.Minute), picket.WithoutRenewal()), "k")
		if err := le.Renew(t.Context(), 10*time.Second); err != nil || le.Remaining() != 9398*time.Millisecond {
			t.Errorf("%v, %s remain", err, le.Remaining())
		}
		if d, err := le.Confirm(t.Context()); err != nil || d != time.Minute {
			t.Errorf("the store keeps %s, %v", d, err)
		}
		<-le.Done()
		wantReason(t, le.Check(), picket.ReasonExpired)
		_ = le.Release(t.Context())
	})
}

// L15, GL-30.
func TestRenewToATTLThatMakesNoSenseIsInvalid(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := onMemory()
		le := acquire(t, picket.New(store, picket.WithGrace(time.Second)), "k")
		for _, ttl := range []time.Duration{-1, time.Nanosecond, 500 * time.Microsecond, 1 << 62, 24*time.Hour + 1, 2 * time.Second /* grace takes half */} {
			wantIs(t, le.Renew(t.Context(), ttl), picket.ErrInvalid)
		}
		if store.renews.Load() != 0 || le.Check() != nil {
			t.Errorf("%d renewals, %v", store.renews.Load(), le.Check())
		}
		release(t, le)
	})
}

func TestRenewRepeatsForThreeSecondsThenTheLeaseIsAsItWas(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := memstore.New()
		le := acquire(t, picket.New(store, picket.WithoutRenewal()), "k")
		store.Fail(errWire)
		var err error
		if d := took(func() { err = le.Renew(t.Context(), time.Minute) }); d < 2700*time.Millisecond || d > 3*time.Second {
			t.Errorf("tried for %s", d)
		}
		wantIs(t, err, picket.ErrUnavailable, errWire)
		if d := le.Remaining(); d > 28198*time.Millisecond-2700*time.Millisecond || le.Check() != nil {
			t.Errorf("%s remain, %v", d, le.Check())
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if d := took(func() { err = le.Renew(ctx, 0) }); d != time.Second {
			t.Errorf("tried for %s", d)
		}
		wantIs(t, err, picket.ErrUnavailable, context.DeadlineExceeded)
		store.Fail(nil)
		release(t, le)
	})
}

func TestRenewNeverRevivesALeaseThatIsOver(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := onMemory()
		le := acquire(t, picket.New(store, picket.WithoutRenewal()), "k")
		time.Sleep(28500 * time.Millisecond) // the store would still renew
		wantReason(t, le.Renew(t.Context(), 0), picket.ReasonExpired)
		if n := store.renews.Load(); n != 0 {
			t.Errorf("%d renewals", n)
		}
		_ = le.Release(t.Context())
	})
}

// A renewal on its way when Renew shortens the lease asked for the longer TTL; its answer must not lengthen what the holder believes.
func TestAnOlderRenewalDoesNotUndoAShorterOne(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := onMemory()
		store.renew = func(ctx context.Context, cs []picket.Claim, report func(int, error)) {
			if cs[0].TTL == time.Minute {
				time.Sleep(time.Second)
			}
			store.Store.Renew(ctx, cs, report)
		}
		le := acquire(t, picket.New(store, picket.WithTTL(time.Minute)), "k")
		time.Sleep(20*time.Second + 500*time.Millisecond)
		if err := le.Renew(t.Context(), 10*time.Second); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second)
		if d := le.Remaining(); d > 9*time.Second {
			t.Errorf("%s remain of 10s", d)
		}
		release(t, le)
	})
}

func TestReissueMintsATokenAboveTheGivenOne(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := memstore.New()
		le := acquire(t, picket.New(store), "k")
		above := time.Now().Add(time.Hour).UnixMicro()
		token, err := le.Reissue(t.Context(), above)
		if err != nil || token <= above || le.Token() != token {
			t.Errorf("%d, lease %d, above %d, %v", token, le.Token(), above, err)
		}
		_, err = le.Reissue(t.Context(), 1)
		wantIs(t, err, picket.ErrRefused)
		store.Fail(errWire)
		_, err = le.Reissue(t.Context(), above)
		wantIs(t, err, picket.ErrUncertain, errWire)
		store.Fail(nil)
		store.Lose("k", picket.ReasonDeleted)
		_, err = le.Reissue(t.Context(), above)
		wantReason(t, err, picket.ReasonDeleted)

		plain := acquire(t, picket.New(onMemory()), "k")
		_, err = plain.Reissue(t.Context(), above)
		wantIs(t, err, picket.ErrUnsupported)
		release(t, plain)
	})
}

// A store of kernel locks grants leases that no clock ends.
func TestALeaseWithoutExpiryLastsUntilItIsReleasedOrLost(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := onMemory()
		store.acquire = func(_ context.Context, _ picket.Claim) (picket.Grant, error) {
			return picket.Grant{Token: 1, TTL: picket.NoExpiry}, nil
		}
		gone := false
		store.renew = func(_ context.Context, cs []picket.Claim, report func(int, error)) {
			if gone {
				report(0, &picket.LostError{Key: cs[0].Key, Reason: picket.ReasonDeleted})
				return
			}
			report(0, errWire)
		}
		l := picket.New(store)
		le := acquire(t, l, "k")
		if le.Remaining() != picket.NoExpiry {
			t.Errorf("%s remain", le.Remaining())
		}
		time.Sleep(time.Hour)
		if err := le.Check(); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		gone = true
		<-le.Done()
		wantReason(t, le.Check(), picket.ReasonDeleted)
		wantIdle(t, l)

		fixed := acquire(t, l.With(picket.WithoutRenewal()), "fixed")
		<-fixed.Done()
		wantReason(t, fixed.Check(), picket.ReasonExpired)
		capped := acquire(t, l.With(picket.WithMaxHold(time.Minute)), "capped")
		if d := capped.Remaining(); d > time.Minute {
			t.Errorf("%s remain of a minute", d)
		}
		<-capped.Done()
		wantReason(t, capped.Check(), picket.ReasonMaxHold)
	})
}

// GL-32, redis-semaphore#24: the holder stops for two TTLs and another takes over. Its next step sees the loss, before any timer has run.
func TestAHolderThatWasStoppedSeesTheLossAtItsNextStep(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := memstore.New()
		var m machine
		l := picket.New(store)
		picket.SetAsleep(l, m.asleep)
		le := acquire(t, l, "k")
		m.sleep(time.Minute)
		store.Lose("k", picket.ReasonExpired) // a minute has passed for the store
		next := acquire(t, picket.New(store), "k")
		err := le.Check()
		wantIs(t, err, picket.ErrLost)
		if errors.Is(err, picket.ErrReleased) || next.Token() <= le.Token() {
			t.Errorf("%v; tokens %d, %d", err, le.Token(), next.Token())
		}
		_ = le.Release(t.Context())
		release(t, next)
	})
}
