package locktest

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/picket-go/picket"
)

// What users see: the store under a Locker.
var locking = theme{"locker", []check{
	{"work of several lockers is never done together", 0, lockersExclude},
	{"a try finds a held key busy and does not run", 0, lockerTryIsBusy},
	{"a lease outlives its TTL while its locker renews it", expiry, lockerRenews},
	{"a lease whose record is gone is told lost", expiry, lockerTellsLoss},
	{"a lease may be released by another goroutine", 0, lockerReleasesElsewhere},
	{"a cancelled acquire leaves no key", 0, lockerCancelled},
	{"an acquire that is cancelled while it waits leaves no place", 0, lockerGivesUp},
	{"waiters of a store that wakes need not poll", queue, lockerIsWoken},
	{"a locker that is shut down leaves nothing", 0, lockerShutsDown},
	{"a key must have 1 to 512 bytes", 0, lockerChecksKey},
}}

// locker returns a Locker on another client of the store; it is shut down after the check.
func (e *env) locker(opts ...picket.Option) *picket.Locker {
	l := picket.New(e.conf.New(e.T), append([]picket.Option{picket.WithTTL(e.long())}, opts...)...)
	ctx := context.WithoutCancel(e.Context())
	e.Cleanup(func() {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		if err := l.Shutdown(ctx); err != nil {
			e.Errorf("Shutdown = %v", err)
		}
	})
	return l
}

func lockersExclude(e *env) {
	const lockers, callers, sections = 3, 2, 6
	var (
		key    = e.key()
		inside atomic.Int32
		done   atomic.Int32
		last   atomic.Int64
		wg     sync.WaitGroup
	)
	ctx, cancel := e.bounded()
	defer cancel()
	work := func(_ context.Context, lease *picket.Lease) error {
		if n := inside.Add(1); n != 1 {
			e.Errorf("%d are inside at once", n)
		}
		if before := last.Swap(lease.Token()); lease.Token() <= before {
			e.Errorf("token %d follows %d", lease.Token(), before)
		}
		e.pause(50 * time.Microsecond)
		inside.Add(-1)
		done.Add(1)
		return lease.Check()
	}
	for range lockers {
		l := e.locker()
		for range callers {
			wg.Go(func() {
				for range sections {
					if err := l.Do(ctx, key, work); err != nil {
						e.Errorf("Do = %v", err)
						return
					}
				}
			})
		}
	}
	wg.Wait()
	if n := done.Load(); n != lockers*callers*sections {
		e.Errorf("%d sections were done, want %d", n, lockers*callers*sections)
	}
	e.settles(key)
}

// lockerAcquires acquires key and gives it back after the check.
func (e *env) lockerAcquires(l *picket.Locker, key string) *picket.Lease {
	e.Helper()
	ctx, cancel := e.bounded()
	defer cancel()
	lease, err := l.Acquire(ctx, key)
	if err != nil {
		e.Fatalf("Acquire(%q) = %v", key, err)
	}
	ctx = context.WithoutCancel(ctx)
	e.Cleanup(func() { _ = lease.Release(ctx) })
	return lease
}

func lockerTryIsBusy(e *env) {
	key := e.key()
	lease := e.lockerAcquires(e.locker(picket.WithLabel("the first")), key)
	for _, l := range []*picket.Locker{e.locker(), e.locker()} {
		err := l.TryDo(e.Context(), key, func(context.Context, *picket.Lease) error {
			e.Error("TryDo ran beside the holder")
			return nil
		})
		busy, ok := errors.AsType[*picket.BusyError](err)
		if !ok || busy.Holder.ID != lease.Holder().ID || busy.Holder.Label != "the first" {
			e.Fatalf("TryDo = %v, want busy by %+v", err, lease.Holder())
		}
	}
	if err := lease.Release(e.Context()); err != nil {
		e.Fatalf("Release = %v", err)
	}
	e.state(key, picket.StatusFree)
}

func lockerRenews(e *env) {
	ttl := max(e.conf.TTL, late)
	lease := e.lockerAcquires(e.locker(picket.WithTTL(ttl)), e.key())
	select {
	case <-lease.Done():
		e.Fatalf("the lease ended: %v", lease.Check())
	case <-time.After(ttl + ttl/2):
	}
	if err := lease.Release(e.Context()); err != nil {
		e.Fatalf("Release = %v", err)
	}
}

// lockerTellsLoss covers GL-25: somebody deletes the record behind the holder's back.
func lockerTellsLoss(e *env) {
	lease := e.lockerAcquires(e.locker(picket.WithTTL(max(e.conf.TTL, late))), e.key())
	ctx := lease.Context(e.Context())
	e.release(e.claimAs(lease.Holder().ID, lease.Key()))
	select {
	case <-ctx.Done():
	case <-time.After(patience):
		e.Fatalf("the holder is not told that its record is gone")
	}
	if lost, ok := errors.AsType[*picket.LostError](context.Cause(ctx)); !ok || lost.Token != lease.Token() {
		e.Errorf("the cause is %v, want a *LostError with token %d", context.Cause(ctx), lease.Token())
	}
	if err := lease.Check(); !errors.Is(err, picket.ErrLost) {
		e.Errorf("Check = %v, want ErrLost", err)
	}
}

// lockerReleasesElsewhere covers L18.
func lockerReleasesElsewhere(e *env) {
	lease := e.lockerAcquires(e.locker(), e.key())
	done := make(chan error)
	go func() { done <- lease.Release(e.Context()) }()
	if err := <-done; err != nil {
		e.Fatalf("Release = %v", err)
	}
	if err := lease.Check(); !errors.Is(err, picket.ErrReleased) {
		e.Errorf("Check = %v, want ErrReleased", err)
	}
	e.state(lease.Key(), picket.StatusFree)
}

// lockerCancelled covers L7.
func lockerCancelled(e *env) {
	l := e.locker()
	typical := time.Now()
	e.lockerAcquires(l, e.key())
	most := max(4*time.Since(typical), 100*time.Microsecond)
	key := e.key()
	for range 200 {
		ctx, cancel := context.WithTimeout(e.Context(), rand.N(most))
		lease, err := l.Acquire(ctx, key)
		cancel()
		switch {
		case err == nil:
			if err := lease.Release(e.Context()); err != nil {
				e.Fatalf("Release = %v", err)
			}
		case !errors.Is(err, context.DeadlineExceeded):
			e.Fatalf("Acquire = %v, want a lease or DeadlineExceeded", err)
		}
	}
	e.settles(key)
	e.granted(e.claim(key))
}

// lockerGivesUp covers GL-40 and GL-41.
func lockerGivesUp(e *env) {
	holder := e.granted(e.claim(e.key())).Claim
	var wg sync.WaitGroup
	for range 3 {
		l := e.locker()
		for range 3 {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(e.Context(), rand.N(e.conf.TTL))
				defer cancel()
				_, err := l.Acquire(ctx, holder.Key)
				if !errors.Is(err, context.DeadlineExceeded) {
					e.Errorf("Acquire = %v, want DeadlineExceeded", err)
				}
			})
		}
	}
	wg.Wait()
	e.release(holder)
	e.settles(holder.Key)
}

// lockerIsWoken: a wake-up may be lost, then a poll finds the key 250 ms later; most may not. The waiters of a locker share it, and only the first of
// them can use it.
func lockerIsWoken(e *env) {
	e.waker()
	if e.inspect(e.key()).Waiters < 0 {
		e.Skip("the store does not count its waiters")
	}
	const lockers, callers, sections = 4, 2, 6
	var (
		holder = e.granted(e.claim(e.key())).Claim
		gaps   []time.Duration // guarded by the key
		left   time.Time
		wg     sync.WaitGroup
	)
	ctx, cancel := e.bounded()
	defer cancel()
	for range lockers {
		l := e.locker()
		for range callers {
			wg.Go(func() {
				for range sections {
					if err := l.Do(ctx, holder.Key, func(context.Context, *picket.Lease) error {
						gaps = append(gaps, time.Since(left))
						e.pause(100 * time.Microsecond) // so that who was inside queues again
						left = time.Now()
						return nil
					}); err != nil {
						e.Errorf("Do = %v", err)
						return
					}
				}
			})
		}
	}
	for e.inspect(holder.Key).Waiters < lockers && ctx.Err() == nil {
		e.pause(time.Millisecond)
	}
	left = time.Now()
	e.release(holder)
	wg.Wait()
	slices.Sort(gaps)
	woken, _ := slices.BinarySearch(gaps, 60*time.Millisecond)
	if polled := len(gaps) - woken; polled > len(gaps)/6 {
		e.Errorf("%d of %d times the next came in too late for a wake-up: %v", polled, len(gaps), gaps)
	}
}

// lockerShutsDown covers GL-67.
func lockerShutsDown(e *env) {
	l := picket.New(e.conf.New(e.T), picket.WithTTL(e.long()))
	var (
		keys    [5]string
		holding sync.WaitGroup
		wg      sync.WaitGroup
	)
	for i := range keys {
		keys[i] = e.key()
		holding.Add(1)
		wg.Go(func() {
			err := l.Do(e.Context(), keys[i], func(ctx context.Context, _ *picket.Lease) error {
				holding.Done()
				<-ctx.Done()
				return context.Cause(ctx)
			})
			if !errors.Is(err, picket.ErrClosed) {
				e.Errorf("Do = %v, want ErrClosed", err)
			}
		})
	}
	holding.Wait()
	wg.Go(func() {
		if _, err := l.Acquire(e.Context(), keys[0]); !errors.Is(err, picket.ErrClosed) {
			e.Errorf("the waiting Acquire = %v, want ErrClosed", err)
		}
	})
	e.pause(e.conf.TTL / 10)
	ctx, cancel := e.bounded()
	defer cancel()
	if err := l.Shutdown(ctx); err != nil {
		e.Errorf("Shutdown = %v", err)
	}
	wg.Wait()
	for _, key := range keys {
		e.settles(key)
	}
	if _, err := l.TryAcquire(ctx, e.key()); !errors.Is(err, picket.ErrClosed) {
		e.Errorf("TryAcquire after Shutdown = %v, want ErrClosed", err)
	}
}

func lockerChecksKey(e *env) {
	l := e.locker()
	for _, key := range []string{"", string(make([]byte, 513))} {
		if _, err := l.TryAcquire(e.Context(), key); !errors.Is(err, picket.ErrInvalid) {
			e.Errorf("TryAcquire of a key of %d bytes = %v, want ErrInvalid", len(key), err)
		}
	}
}
