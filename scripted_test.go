package picket_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/picket-go/picket"
	"github.com/picket-go/picket/memstore"
)

// scripted is a store whose answers a test writes; what it leaves out, memory answers. It has no optional interface, and counts its calls.
type scripted struct {
	picket.Store
	acquire func(ctx context.Context, c picket.Claim) (picket.Grant, error)
	renew   func(ctx context.Context, cs []picket.Claim, report func(i int, err error))
	release func(ctx context.Context, c picket.Claim) error
	inspect func(ctx context.Context, key string) (picket.Status, error)

	acquires, renews, releases atomic.Int64
}

func onMemory() *scripted { return &scripted{Store: memstore.New()} }

func (s *scripted) Acquire(ctx context.Context, c picket.Claim) (picket.Grant, error) {
	s.acquires.Add(1)
	if s.acquire != nil {
		return s.acquire(ctx, c)
	}
	return s.Store.Acquire(ctx, c)
}

func (s *scripted) Renew(ctx context.Context, cs []picket.Claim, report func(i int, err error)) {
	s.renews.Add(1)
	if s.renew != nil {
		s.renew(ctx, cs, report)
		return
	}
	s.Store.Renew(ctx, cs, report)
}

func (s *scripted) Release(ctx context.Context, c picket.Claim) error {
	s.releases.Add(1)
	if s.release != nil {
		return s.release(ctx, c)
	}
	return s.Store.Release(ctx, c)
}

func (s *scripted) Inspect(ctx context.Context, key string) (picket.Status, error) {
	if s.inspect != nil {
		return s.inspect(ctx, key)
	}
	return s.Store.Inspect(ctx, key)
}

// listening is a scripted store with a Waker.
type listening struct {
	*scripted
	watch   func(ctx context.Context, c picket.Claim) (<-chan struct{}, func(), error)
	watches atomic.Int64
}

func (s *listening) Watch(ctx context.Context, c picket.Claim) (<-chan struct{}, func(), error) {
	s.watches.Add(1)
	if s.watch != nil {
		return s.watch(ctx, c)
	}
	return s.Store.(picket.Waker).Watch(ctx, c)
}

// handing is a listening store with a Transferer.
type handing struct {
	*listening
	transfer  func(ctx context.Context, from, to picket.Claim) (picket.Grant, error)
	transfers atomic.Int64
}

func (s *handing) Transfer(ctx context.Context, from, to picket.Claim) (picket.Grant, error) {
	s.transfers.Add(1)
	if s.transfer != nil {
		return s.transfer(ctx, from, to)
	}
	return s.Store.(picket.Transferer).Transfer(ctx, from, to)
}

func onListeningMemory() *listening { return &listening{scripted: onMemory()} }

func onHandingMemory() *handing { return &handing{listening: onListeningMemory()} }

// errWire stands for a connection that broke: whether the request arrived is unknown.
var errWire = errors.New("connection reset by peer")

// hang is a server that does not answer.
func hang(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// inBubble runs f in virtual time. The bubble fails the test if f leaves a goroutine behind.
func inBubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, f)
}

func acquire(t *testing.T, l *picket.Locker, key string) *picket.Lease {
	t.Helper()
	le, err := l.Acquire(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	return le
}

func release(t *testing.T, le *picket.Lease) {
	t.Helper()
	if err := le.Release(t.Context()); err != nil {
		t.Errorf("release of %q: %v", le.Key(), err)
	}
}

// wantFree fails the test unless key is free in store.
func wantFree(t *testing.T, store picket.Store, key string) {
	t.Helper()
	st, err := store.Inspect(t.Context(), key)
	if err != nil || st.State != picket.StatusFree || st.Waiters != 0 {
		t.Errorf("%q is %s, held by %q, %d waiting, %v; want it free", key, st.State, st.Holder, st.Waiters, err)
	}
}

// wantIdle fails the test unless l knows of nothing any more.
func wantIdle(t *testing.T, l *picket.Locker) {
	t.Helper()
	synctest.Wait()
	if n := picket.Leftovers(l); n != 0 || picket.TimerArmed(l) {
		t.Errorf("%d lines, leases, calls and watched leases are left; timer armed: %v", n, picket.TimerArmed(l))
	}
}

// wantIs fails the test unless err is each of the targets, in one line.
func wantIs(t *testing.T, err error, targets ...error) {
	t.Helper()
	for _, target := range targets {
		if !errors.Is(err, target) {
			t.Errorf("got %v, want %v", err, target)
		}
	}
}

// wantReason fails the test unless err is a *LostError with this reason.
func wantReason(t *testing.T, err error, reason picket.Reason) {
	t.Helper()
	lost, ok := errors.AsType[*picket.LostError](err)
	if !ok || lost.Reason != reason {
		t.Errorf("got %v, want a lease lost by %s", err, reason)
	}
}

// took runs f and returns how long it took.
func took(f func()) time.Duration {
	began := time.Now()
	f()
	return time.Since(began)
}
