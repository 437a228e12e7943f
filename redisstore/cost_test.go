package redisstore_test

import (
	"context"
	"maps"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/picket-go/picket"
	"github.com/picket-go/picket/internal/redistest"
	"github.com/picket-go/picket/locktest"
	"github.com/picket-go/picket/redisstore"
)

// stats are the commands that clients and scripts have sent since before.
func stats(server *redistest.Server, before map[string]int64) map[string]int64 {
	d := map[string]int64{}
	for name, n := range server.CommandStats() {
		if n != before[name] {
			d[name] = n - before[name]
		}
	}
	return d
}

// TestAnUncontendedLockCostsOneScriptEachWay: and no subscription, no other command (issue 3). What the scripts do is counted too, so that it does not grow unseen.
func TestAnUncontendedLockCostsOneScriptEachWay(t *testing.T) {
	server := redistest.Start(t)
	l := locker(t, store(t, client(t, server)))
	round := func() {
		lease, err := l.Acquire(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	round()
	before := server.CommandStats()
	const n = 100
	for range n {
		round()
	}
	want := map[string]int64{
		"evalsha":  2 * n,
		"getrange": n,
		"set":      2 * n, // the record, and the last token, which is read by the same command
		"exists":   2 * n,
		"del":      n,
		"time":     n,
	}
	got := stats(server, before)
	if got["pexpire"] <= 1 { // once in a thousand seconds for the last token
		delete(got, "pexpire")
	}
	if !maps.Equal(got, want) {
		t.Errorf("%d rounds cost %v, want %v", n, got, want)
	}
}

// TestThousandsOfLeasesAreRenewedInBatches covers GL-70: none lost over three TTLs, and at most one round trip for fifty leases in an interval.
func TestThousandsOfLeasesAreRenewedInBatches(t *testing.T) {
	leases := 10_000
	if testing.Short() || raceDetector { // which makes the client several times as slow
		leases = 2000
	}
	const ttl = 2 * time.Second
	server := redistest.Start(t)
	var renewals, lost atomic.Int64
	c := client(t, server)
	l := locker(t, store(t, c), picket.WithTTL(ttl), picket.WithObserver(picket.Observer{
		RenewEnd: func(e picket.RenewEvent) { renewals.Add(int64(e.Renewed)); lost.Add(int64(e.Lost)) },
	}))
	held := make([]*picket.Lease, leases)
	var wg sync.WaitGroup
	for w := range 32 {
		wg.Go(func() {
			for i := w; i < leases; i += 32 {
				lease, err := l.Acquire(t.Context(), "k"+strconv.Itoa(i))
				if err != nil {
					t.Errorf("Acquire = %v", err)
					return
				}
				held[i] = lease
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	before, renewed, began := server.CommandStats()["evalsha"], renewals.Load(), time.Now()
	pairs := beside(t, locker(t, store(t, c, redisstore.WithoutCombining())), 3*ttl)
	intervals := float64(time.Since(began)) / float64(ttl/3)
	trips, done := server.CommandStats()["evalsha"]-before-2*pairs, renewals.Load()-renewed
	t.Logf("%d leases, %.1f intervals: %d renewals in %d round trips, %.0f leases each, %d pairs beside", leases, intervals, done, trips, float64(done)/float64(trips), pairs)
	if most := intervals * float64(leases) / 50; float64(trips) > most {
		t.Errorf("%d round trips, want at most %.0f", trips, most)
	}
	if float64(done) < float64(leases)*(intervals-2) {
		t.Errorf("%d renewals of %d leases in %.1f intervals", done, leases, intervals)
	}
	for _, lease := range held {
		if err := lease.Check(); err != nil {
			t.Fatal(err)
		}
	}
	if n := lost.Load(); n > 0 {
		t.Errorf("%d leases were lost", n)
	}
	for w := range 32 {
		wg.Go(func() {
			for i := w; i < leases; i += 32 {
				if err := held[i].Release(t.Context()); err != nil {
					t.Errorf("Release(%q) = %v", held[i].Key(), err)
				}
			}
		})
	}
	wg.Wait()
}

// beside lets others acquire and release meanwhile, and returns how often: neither may stand in the other's way.
func beside(t *testing.T, l *picket.Locker, d time.Duration) (pairs int64) {
	var n atomic.Int64
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for ctx.Err() == nil {
				lease, err := l.Acquire(t.Context(), "beside"+strconv.Itoa(i))
				if err != nil {
					t.Errorf("Acquire = %v", err)
					return
				}
				if err := lease.Release(t.Context()); err != nil {
					t.Errorf("Release(%q) = %v", lease.Key(), err)
				}
				n.Add(1)
			}
		})
	}
	wg.Wait()
	return n.Load()
}

// BenchmarkPair is one caller's acquire and release beside the least that can be called a lock, in turns in one run: SET NX PX and a script that compares and deletes.
func BenchmarkPair(b *testing.B) {
	server := redistest.Shared(b)
	c := client(b, server)
	l := locker(b, store(b, c))
	del := redis.NewScript(`if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) end return 0`)
	raw := func(ctx context.Context) error {
		if err := c.SetNX(ctx, "raw", "token", 30*time.Second).Err(); err != nil {
			return err
		}
		return del.Run(ctx, c, []string{"raw"}, "token").Err()
	}
	pair := func(ctx context.Context) error {
		lease, err := l.Acquire(ctx, "pair")
		if err != nil {
			return err
		}
		return lease.Release(ctx)
	}
	for name, ctx := range map[string]context.Context{"ctx without end": context.WithoutCancel(b.Context()), "ctx that may be cancelled": b.Context()} {
		b.Run(name, func(b *testing.B) {
			var plain, ours time.Duration
			n := 0
			for b.Loop() {
				plain += timed(b, ctx, raw)
				ours += timed(b, ctx, pair)
				n++
			}
			b.ReportMetric(float64(ours)/float64(plain), "×raw")
			b.ReportMetric(float64(plain.Nanoseconds())/float64(n), "raw-ns")
			b.ReportMetric(float64(ours.Nanoseconds())/float64(n), "picket-ns")
		})
	}
}

func timed(b *testing.B, ctx context.Context, f func(context.Context) error) time.Duration { //nolint:revive // b is the test
	began := time.Now()
	if err := f(ctx); err != nil {
		b.Fatal(err)
	}
	return time.Since(began)
}

func BenchmarkStore(b *testing.B) {
	server := redistest.Shared(b)
	locktest.Benchmark(b, locktest.Config{New: func(*testing.T) picket.Store { return store(b, client(b, server)) }})
}
