package picket_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/picket-go/picket"
)

// swallow runs f as a server does whose handlers may panic.
func swallow(f func()) {
	defer func() { _ = recover() }()
	f()
}

func TestAWatchThatPanicsLeavesTheKeyObtainable(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := onListeningMemory()
		l := picket.New(store)
		held := acquire(t, l, "k")
		store.watch = func(context.Context, picket.Claim) (<-chan struct{}, func(), error) { panic("a bug of the store") }
		other := l.With(picket.WithMaxWait(10 * time.Second))
		swallow(func() { _, _ = other.Acquire(t.Context(), "k") })
		store.watch = nil
		release(t, held)
		le, err := other.Acquire(t.Context(), "k")
		if err != nil {
			t.Fatalf("Acquire of a free key = %v", err)
		}
		release(t, le)
		wantIdle(t, l)
	})
}

func TestATransferThatPanicsLeavesTheKeyObtainable(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := onHandingMemory()
		l := picket.New(store, picket.WithMaxWait(2*time.Minute))
		held := acquire(t, l, "k")
		done := make(chan error, 1)
		go func() {
			le, err := l.Acquire(t.Context(), "k")
			if err == nil {
				err = le.Release(t.Context())
			}
			done <- err
		}()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		store.transfer = func(context.Context, picket.Claim, picket.Claim) (picket.Grant, error) { panic("a bug of the store") }
		swallow(func() { _ = held.Release(context.WithoutCancel(t.Context())) })
		store.transfer = nil
		if err := <-done; err != nil {
			t.Errorf("the waiter got %v, although the lease has ended", err)
		}
	})
}

func TestAReleaseThatPanickedDoesNotBlockTheNextOne(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := onMemory()
		l := picket.New(store)
		held := acquire(t, l, "k")
		store.release = func(context.Context, picket.Claim) error { panic("a bug of the store") }
		swallow(func() { _ = held.Release(context.WithoutCancel(t.Context())) })
		store.release = nil
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Hour, errors.New("blocked for an hour"))
		defer cancel()
		if err := held.Release(ctx); err != nil {
			t.Errorf("the second Release = %v, after %v", err, context.Cause(ctx))
		}
	})
}
