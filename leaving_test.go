package picket_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/picket-go/picket"
)

// Shutdown says that calls under way when its ctx ends are told to end, and waited for.
func TestShutdownWaitsForTheCallOfARelease(t *testing.T) {
	for name, made := range map[string]func(context.Context) (context.Context, context.CancelFunc){
		"cancellable": context.WithCancel,
		"endless":     func(ctx context.Context) (context.Context, context.CancelFunc) { return ctx, func() {} },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				store := onMemory()
				var flying atomic.Bool
				store.release = func(ctx context.Context, _ picket.Claim) error {
					flying.Store(true)
					defer flying.Store(false)
					<-ctx.Done()
					time.Sleep(500 * time.Millisecond) // soon after ctx ends
					return ctx.Err()
				}
				var ended atomic.Bool
				l := picket.New(store, picket.WithObserver(picket.Observer{ReleaseEnd: func(context.Context, picket.ReleaseEvent) { ended.Store(true) }}))
				le := acquire(t, l, "k")
				ctx, cancel := made(context.WithoutCancel(t.Context()))
				defer cancel()
				go func() { _ = le.Release(ctx) }()
				synctest.Wait()
				sctx, scancel := context.WithTimeout(context.WithoutCancel(t.Context()), 100*time.Millisecond)
				defer scancel()
				err := l.Shutdown(sctx)
				if flying.Load() || !ended.Load() {
					t.Errorf("Shutdown returned (%v) while the call of a release is under way: %v, observed %v", err, flying.Load(), ended.Load())
				}
				time.Sleep(time.Second)
			})
		})
	}
}

// The releaser's ctx ends, but the grant has come too late / after Shutdown, and is burnt.
func TestAReleaseLeavesOnTimeAlsoWhenTheGrantIsBurnt(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := onHandingMemory()
		store.transfer = func(ctx context.Context, from, to picket.Claim) (picket.Grant, error) {
			time.Sleep(50 * time.Millisecond)
			return store.Store.(picket.Transferer).Transfer(ctx, from, to)
		}
		store.release = func(ctx context.Context, _ picket.Claim) error { return hang(ctx) }
		l := picket.New(store)
		le := acquire(t, l, "k")
		go func() { _, _ = l.Acquire(context.WithoutCancel(t.Context()), "k") }()
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 100*time.Millisecond)
		defer cancel()
		go func() {
			time.Sleep(20 * time.Millisecond)
			sctx, scancel := context.WithTimeout(context.WithoutCancel(t.Context()), 10*time.Second)
			defer scancel()
			_ = l.Shutdown(sctx)
		}()
		var err error
		if d := took(func() { err = le.Release(ctx) }); d > 100*time.Millisecond {
			t.Errorf("returned after %s: %v", d, err)
		}
		time.Sleep(time.Minute)
	})
}

// The second waiter of a line that has had no answer yet, when the releaser leaves.
func TestTheReleasersLeavingSaysNothingOfTheStore(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := onHandingMemory()
		store.transfer = func(ctx context.Context, from, to picket.Claim) (picket.Grant, error) {
			select {
			case <-time.After(200 * time.Millisecond):
				return store.Store.(picket.Transferer).Transfer(ctx, from, to)
			case <-ctx.Done():
				return picket.Grant{}, ctx.Err()
			}
		}
		store.acquire = func(ctx context.Context, c picket.Claim) (picket.Grant, error) {
			time.Sleep(10 * time.Millisecond)
			return store.Store.Acquire(ctx, c)
		}
		l := picket.New(store)
		first := make(chan *picket.Lease, 3)
		go func() { first <- acquire(t, l, "k") }()
		time.Sleep(time.Millisecond)
		go func() { first <- acquire(t, l, "k") }()
		time.Sleep(time.Millisecond)
		go func() {
			_, err := l.With(picket.WithMaxWait(150*time.Millisecond)).Acquire(t.Context(), "k")
			if !errors.Is(err, picket.ErrBusy) {
				t.Errorf("the third: %v", err)
			}
		}()
		le := <-first
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 120*time.Millisecond)
		defer cancel()
		wantIs(t, le.Release(ctx), picket.ErrUncertain, context.DeadlineExceeded)
		next := <-first
		release(t, next)
		release(t, le)
	})
}

// A second Release that waits for one that was left, when nobody goes on.
func TestAnAwaitingReleaseHasItsOwnError(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := onMemory()
		store.release = func(ctx context.Context, _ picket.Claim) error { return hang(ctx) }
		l := picket.New(store)
		le := acquire(t, l, "k")
		sctx, scancel := context.WithCancel(context.WithoutCancel(t.Context()))
		scancel()
		_ = l.Shutdown(sctx)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 100*time.Millisecond)
		defer cancel()
		other := make(chan error)
		go func() { _ = le.Release(ctx) }()
		synctest.Wait()
		go func() { other <- le.Release(context.WithoutCancel(t.Context())) }()
		if err := <-other; !errors.Is(err, picket.ErrUncertain) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want that it is uncertain, and nothing of the other's ctx", err)
		}
	})
}
