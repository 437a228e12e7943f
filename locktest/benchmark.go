package locktest

import (
	"context"
	"crypto/rand"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/picket-go/picket"
)

// Benchmark measures what a section under a lock costs on the store: the critical section is empty, so all of it is the lock's.
// It calls New with a nil t: let New use the *testing.B around it. NoQueue and the other limits do not matter here.
func Benchmark(b *testing.B, c Config) {
	b.Helper()
	bench := benchmark{conf: c, prefix: "locktest-" + rand.Text()[:12] + "-"}
	b.Run("one key, nobody else", bench.uncontended)
	b.Run("a key each, in parallel", bench.distinct)
	b.Run("one key handed on in one locker", bench.oneLocker)
	b.Run("one key handed on between lockers", bench.manyLockers)
}

type benchmark struct {
	conf   Config
	prefix string
}

// locker is shut down with the benchmark.
func (m benchmark) locker(b *testing.B) *picket.Locker {
	l := picket.New(m.conf.New(nil))
	ctx := context.WithoutCancel(b.Context())
	b.Cleanup(func() {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		if err := l.Shutdown(ctx); err != nil {
			b.Errorf("Shutdown = %v", err)
		}
	})
	return l
}

// report says how many sections there were in each second.
func report(b *testing.B) {
	if took := b.Elapsed(); took > 0 {
		b.ReportMetric(float64(b.N)*float64(time.Second)/float64(took), "sections/s")
	}
}

func (m benchmark) uncontended(b *testing.B) {
	l, ctx, key := m.locker(b), b.Context(), m.prefix+"one"
	b.ReportAllocs()
	for b.Loop() {
		if err := section(ctx, key, l.TryAcquire); err != nil {
			b.Fatal(err)
		}
	}
	report(b)
}

func (m benchmark) distinct(b *testing.B) {
	var (
		l      = m.locker(b)
		ctx    = b.Context()
		caller atomic.Int32
	)
	b.ReportAllocs()
	b.SetParallelism(8)
	b.RunParallel(func(pb *testing.PB) {
		key := m.prefix + strconv.Itoa(int(caller.Add(1)))
		for pb.Next() {
			if err := section(ctx, key, l.TryAcquire); err != nil {
				b.Error(err)
				return
			}
		}
	})
	report(b)
}

func (m benchmark) oneLocker(b *testing.B) { m.handOn(b, m.locker(b)) }
func (m benchmark) manyLockers(b *testing.B) {
	m.handOn(b, m.locker(b), m.locker(b), m.locker(b), m.locker(b))
}

// handOn makes callers of all lockers compete for one key.
func (m benchmark) handOn(b *testing.B, lockers ...*picket.Locker) {
	var (
		ctx    = b.Context()
		key    = m.prefix + "shared"
		caller atomic.Int32
	)
	b.ReportAllocs()
	b.SetParallelism(4)
	b.RunParallel(func(pb *testing.PB) {
		l := lockers[int(caller.Add(1))%len(lockers)]
		for pb.Next() {
			if err := section(ctx, key, l.Acquire); err != nil {
				b.Error(err)
				return
			}
		}
	})
	report(b)
}

func section(ctx context.Context, key string, acquire func(context.Context, string) (*picket.Lease, error)) error {
	lease, err := acquire(ctx, key)
	if err != nil {
		return err
	}
	return lease.Release(ctx)
}
