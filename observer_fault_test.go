package picket_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/picket-go/picket"
	"github.com/picket-go/picket/memstore"
)

// DESIGN 3.2: the holder knows first, also when an observer of another lease does not return.
func TestAnObserverThatBlocksHoldsUpNoOtherLease(t *testing.T) {
	for _, at := range []picket.State{picket.StateJeopardy, picket.StateEnding, picket.StateLost} {
		t.Run(at.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				store := memstore.New()
				stuck := make(chan struct{})
				var blocked atomic.Bool
				l := picket.New(store, picket.WithTTL(10*time.Second), picket.WithObserver(picket.Observer{LeaseChange: func(e picket.LeaseEvent) {
					if e.To == at && blocked.CompareAndSwap(false, true) {
						<-stuck
					}
				}}))
				held := map[string]context.Context{}
				for _, key := range []string{"a", "b", "c", "d"} {
					held[key] = acquire(t, l, key).Context(t.Context())
					time.Sleep(100 * time.Millisecond)
				}
				store.Fail(errors.New("outage"))
				time.Sleep(15 * time.Second)
				for key, ctx := range held {
					wantReason(t, context.Cause(ctx), picket.ReasonUnreachable)
					if ctx.Err() == nil {
						t.Errorf("the context of %q goes on after its TTL", key)
					}
				}
				close(stuck)
			})
		})
	}
}

func TestAnObserverThatBlocksHoldsUpNoOtherRenewal(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := memstore.New()
		stuck := make(chan struct{})
		l := picket.New(store, picket.WithTTL(10*time.Second), picket.WithObserver(picket.Observer{LeaseChange: func(e picket.LeaseEvent) {
			if e.Lease.Key() == "lost" {
				<-stuck
			}
		}}))
		lost, held := acquire(t, l, "lost"), acquire(t, l, "held")
		store.Lose("lost", picket.ReasonStolen)
		time.Sleep(time.Minute)
		if held.Check() != nil {
			t.Errorf("the neighbour in the batch: %v", held.Check())
		}
		wantReason(t, lost.Check(), picket.ReasonStolen)
		close(stuck)
		release(t, held)
	})
}

// A server whose handlers may panic lives on. So do its locks.
func TestAnObserverThatPanicsLeavesNothingBehind(t *testing.T) {
	panics := func() { panic("a bug of the observer") }
	for name, o := range map[string]picket.Observer{
		"AcquireStart": {AcquireStart: func(context.Context, string) context.Context { panics(); return nil }},
		"AcquireEnd":   {AcquireEnd: func(context.Context, picket.AcquireEvent) { panics() }},
		"ReleaseEnd":   {ReleaseEnd: func(context.Context, picket.ReleaseEvent) { panics() }},
		"LeaseChange":  {LeaseChange: func(picket.LeaseEvent) { panics() }},
		"no context":   {AcquireStart: func(context.Context, string) context.Context { return nil }},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				store := memstore.New()
				l := picket.New(store, picket.WithTTL(time.Second), picket.WithObserver(o))
				swallow(func() { _ = l.Do(t.Context(), "k", func(context.Context, *picket.Lease) error { return nil }) })
				time.Sleep(time.Minute)
				wantFree(t, store, "k")
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				if err := l.Shutdown(ctx); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A store that was closed under its Locker says so, and the waiter does not ask it for ever.
func TestAStoreThatIsClosedEndsTheWaiting(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := onMemory()
		var closed atomic.Bool
		store.acquire = func(ctx context.Context, c picket.Claim) (picket.Grant, error) {
			if closed.Load() {
				return picket.Grant{}, picket.ErrClosed
			}
			return store.Store.Acquire(ctx, c)
		}
		l := picket.New(store)
		held := acquire(t, l, "k")
		time.AfterFunc(time.Second, func() { closed.Store(true) })
		before := store.acquires.Load()
		_, err := l.With(picket.WithMaxWait(time.Minute)).Acquire(t.Context(), "k")
		wantIs(t, err, picket.ErrClosed)
		if n := store.acquires.Load() - before; n > 20 {
			t.Errorf("asked %d times", n)
		}
		release(t, held)
	})
}
