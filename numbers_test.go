package picket_test

import (
	"context"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/picket-go/picket"
	"github.com/picket-go/picket/memstore"
)

// One Locker holds 100,000 leases for ten TTLs: none is lost, each is renewed three times a TTL, and no goroutine is added for any of them.
func TestOneLockerHoldsAHundredThousandLeases(t *testing.T) {
	const ttl = 30 * time.Second
	n := 100_000
	if raced {
		n = 5_000
	}
	synctest.Test(t, func(t *testing.T) {
		var renewals, lost atomic.Int64
		l := picket.New(memstore.New(), picket.WithTTL(ttl), picket.WithObserver(picket.Observer{
			RenewEnd: func(e picket.RenewEvent) {
				renewals.Add(int64(e.Renewed))
				lost.Add(int64(e.Lost + e.Unanswered))
			},
			LeaseChange: func(picket.LeaseEvent) { lost.Add(1) },
		}))
		idle := runtime.NumGoroutine()
		leases := make([]*picket.Lease, n)
		for i := range leases {
			leases[i] = acquire(t, l, strconv.Itoa(i))
			if i%100 == 0 {
				time.Sleep(time.Millisecond)
			}
		}
		time.Sleep(10*ttl + time.Second)
		synctest.Wait()
		if more := runtime.NumGoroutine() - idle; more > 20 {
			t.Errorf("%d goroutines for %d leases", more, n)
		}
		if renewals.Load() < int64(30*n) || lost.Load() != 0 {
			t.Errorf("%d renewals, want %d; %d lost or late", renewals.Load(), 30*n, lost.Load())
		}
		for _, le := range leases {
			if err := le.Check(); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 0)
		defer cancel()
		_ = l.Shutdown(ctx)
	})
}

// agreeable keeps nothing and says yes to all, so that only the core's own memory is seen.
type agreeable struct{}

func (agreeable) Acquire(context.Context, picket.Claim) (picket.Grant, error) {
	return picket.Grant{Token: 1}, nil
}

func (agreeable) Renew(_ context.Context, cs []picket.Claim, report func(i int, err error)) {
	for i := range cs {
		report(i, nil)
	}
}

func (agreeable) Release(context.Context, picket.Claim) error { return nil }

func (agreeable) Inspect(_ context.Context, key string) (picket.Status, error) {
	return picket.Status{Key: key, State: picket.StatusFree}, nil
}

func TestALeaseTakesLessThanAKilobyteBesideTheStore(t *testing.T) {
	const n = 20_000
	l := picket.New(agreeable{}, picket.WithTTL(time.Hour))
	keys := make([]string, n)
	leases := make([]*picket.Lease, n)
	for i := range keys {
		keys[i] = "some/key/of/usual/length/" + strconv.Itoa(i)
	}
	before := heap()
	for i, key := range keys {
		leases[i] = acquire(t, l, key)
	}
	each := (heap() - before) / n
	if each >= 1024 {
		t.Errorf("%d bytes a lease", each)
	}
	t.Logf("%d bytes a lease", each)
	for _, le := range leases {
		release(t, le)
	}
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// The usual path, with a ctx that cannot end, costs at most twelve allocations and starts no goroutine.
func TestTryAcquireAndReleaseCostTwelveAllocations(t *testing.T) {
	l := picket.New(memstore.New())
	ctx := context.WithoutCancel(t.Context())
	pair := func() {
		le, err := l.TryAcquire(ctx, "k")
		if err != nil {
			t.Fatal(err)
		}
		if err := le.Release(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if n := testing.AllocsPerRun(1000, pair); n > 12 && !raced {
		t.Errorf("%v allocations", n)
	} else {
		t.Logf("%v allocations", n)
	}
}

// watchful counts the goroutines while a call is under way.
type watchful struct {
	agreeable
	most int
}

func (s *watchful) look() { s.most = max(s.most, runtime.NumGoroutine()) }

func (s *watchful) Acquire(ctx context.Context, c picket.Claim) (picket.Grant, error) {
	s.look()
	return s.agreeable.Acquire(ctx, c)
}

func (s *watchful) Release(ctx context.Context, c picket.Claim) error {
	s.look()
	return s.agreeable.Release(ctx, c)
}

func TestACtxThatCannotEndStartsNoGoroutine(t *testing.T) {
	store := new(watchful)
	l := picket.New(store)
	ctx := context.WithoutCancel(t.Context())
	before := runtime.NumGoroutine()
	for range 100 {
		if err := l.Do(ctx, "k", func(context.Context, *picket.Lease) error { return nil }); err != nil {
			t.Fatal(err)
		}
		le, err := l.TryAcquire(ctx, "k")
		if err != nil {
			t.Fatal(err)
		}
		_ = le.Release(ctx)
	}
	if store.most > before {
		t.Errorf("%d goroutines during a call, %d before", store.most, before)
	}
}
