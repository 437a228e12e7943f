package picket_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/picket-go/picket"
	"github.com/picket-go/picket/memstore"
)

// machine is what a suspended one says of its sleep.
type machine struct{ slept atomic.Int64 }

func (m *machine) sleep(d time.Duration) { m.slept.Add(int64(d)) }

func (m *machine) asleep() time.Duration { return time.Duration(m.slept.Load()) }

// K1, golang/go#24595: Go's clock stands still while a Linux machine is suspended. The first Check after it says lost, although every timer still has its time to run.
func TestAfterASuspendTheFirstCheckSaysLost(t *testing.T) {
	for _, slept := range []time.Duration{29 * time.Second, 31 * time.Second, 24 * time.Hour} {
		t.Run(slept.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				var m machine
				l := picket.New(memstore.New())
				picket.SetAsleep(l, m.asleep)
				le := acquire(t, l, "k")
				ctx := le.Context(t.Context())
				if err := le.Check(); err != nil {
					t.Fatal(err)
				}
				m.sleep(slept)
				wantReason(t, le.Check(), picket.ReasonExpired)
				wantReason(t, context.Cause(ctx), picket.ReasonExpired)
				if le.Remaining() != 0 {
					t.Errorf("%s remain", le.Remaining())
				}
				if err := le.Release(t.Context()); slept > 30*time.Second {
					wantIs(t, err, picket.ErrLost)
				} else if err != nil { // the store says that nobody had it beside us
					t.Error(err)
				}
				wantIdle(t, l)
			})
		})
	}
}

func TestASuspendShorterThanTheLeaseOnlyShortensIt(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var m machine
		l := picket.New(memstore.New(), picket.WithoutRenewal())
		picket.SetAsleep(l, m.asleep)
		le := acquire(t, l, "k")
		m.sleep(10 * time.Second)
		if d := le.Remaining(); d != 18198*time.Millisecond {
			t.Errorf("%s remain", d)
		}
		m.sleep(3 * time.Millisecond) // two readings of one clock, microseconds apart
		if d := le.Remaining(); d != 18198*time.Millisecond {
			t.Errorf("%s remain", d)
		}
		release(t, le)
	})
}

// K1: the machine slept while the grant was on its way. It is over before it is told, so it is undone, and asked for anew with another claim.
func TestAGrantThatSleptPastItsEndIsUndone(t *testing.T) {
	for name, c := range map[string]struct {
		try   func(*picket.Locker, context.Context, string) (*picket.Lease, error)
		slept time.Duration
	}{
		"Acquire":    {(*picket.Locker).Acquire, time.Minute},
		"TryAcquire": {(*picket.Locker).TryAcquire, 2 * time.Second}, // a longer sleep uses up its three seconds
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				var m machine
				var claims []picket.Claim
				store := onMemory()
				store.acquire = func(ctx context.Context, claim picket.Claim) (picket.Grant, error) {
					claims = append(claims, claim)
					g, err := store.Store.Acquire(ctx, claim)
					if len(claims) == 1 {
						m.sleep(c.slept)
					}
					return g, err
				}
				l := picket.New(store, picket.WithTTL(time.Second))
				picket.SetAsleep(l, m.asleep)
				le, err := c.try(l, t.Context(), "k")
				if err != nil {
					t.Fatal(err)
				}
				if len(claims) != 2 || claims[0].ID == claims[1].ID || le.Holder().ID != claims[1].ID || le.Check() != nil {
					t.Errorf("%d claims, %v", len(claims), le.Check())
				}
				// The first is burnt: should it come again, it is refused.
				_, err = store.Store.Acquire(t.Context(), claims[0])
				wantIs(t, err, picket.ErrRefused)
				release(t, le)
				synctest.Wait()
				wantIdle(t, l)
			})
		})
	}
}

// L9: a grant that came after its own end is never told, also when nothing slept.
func TestAGrantThatComesTooLateIsUndone(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := onMemory()
		store.acquire = func(ctx context.Context, c picket.Claim) (picket.Grant, error) {
			g, err := store.Store.Acquire(ctx, c)
			if store.acquires.Load() == 1 {
				time.Sleep(950 * time.Millisecond) // a store that does not return when ctx ends
			}
			return g, err
		}
		l := picket.New(store, picket.WithTTL(time.Second))
		le := acquire(t, l, "k")
		if le.Check() != nil || le.Remaining() != 938*time.Millisecond || store.acquires.Load() != 2 {
			t.Errorf("%v, %s remain after %d attempts", le.Check(), le.Remaining(), store.acquires.Load())
		}
		release(t, le)
		wantIdle(t, l)
	})
}
