package picket_test

import (
	"context"
	"strconv"
	"testing"

	"github.com/picket-go/picket"
	"github.com/picket-go/picket/memstore"
)

func BenchmarkTryAcquireRelease(b *testing.B) {
	for name, ctx := range map[string]func(context.Context) context.Context{
		"ctx that cannot end": context.WithoutCancel,
		"ctx that can":        func(ctx context.Context) context.Context { return ctx },
	} {
		b.Run(name, func(b *testing.B) {
			l, ctx := picket.New(memstore.New()), ctx(b.Context())
			b.ReportAllocs()
			for b.Loop() {
				le, err := l.TryAcquire(ctx, "k")
				if err != nil {
					b.Fatal(err)
				}
				if err := le.Release(ctx); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkDo(b *testing.B) {
	l := picket.New(memstore.New())
	b.ReportAllocs()
	for b.Loop() {
		if err := l.Do(b.Context(), "k", func(context.Context, *picket.Lease) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCheck(b *testing.B) {
	le, err := picket.New(memstore.New()).Acquire(b.Context(), "k")
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := le.Check(); err != nil {
			b.Fatal(err)
		}
	}
	_ = le.Release(b.Context())
}

// One key that all want: the speed of hand-overs in one process and between several.
func BenchmarkContended(b *testing.B) {
	for _, processes := range []int{1, 4} {
		b.Run(strconv.Itoa(processes)+" processes", func(b *testing.B) {
			store := memstore.New()
			lockers := make(chan *picket.Locker, 64)
			all := make([]*picket.Locker, processes)
			for i := range all {
				all[i] = picket.New(store)
			}
			for i := range cap(lockers) {
				lockers <- all[i%processes]
			}
			b.SetParallelism(16)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				l := <-lockers
				for pb.Next() {
					if err := l.Do(b.Context(), "k", func(context.Context, *picket.Lease) error { return nil }); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}

// A batch of 10,000 held leases is the background load of the pairs.
func BenchmarkTryAcquireReleaseBesideManyLeases(b *testing.B) {
	l := picket.New(memstore.New())
	for i := range 10_000 {
		if _, err := l.TryAcquire(b.Context(), strconv.Itoa(i)); err != nil {
			b.Fatal(err)
		}
	}
	ctx := context.WithoutCancel(b.Context())
	b.ReportAllocs()
	for b.Loop() {
		le, err := l.TryAcquire(ctx, "k")
		if err != nil {
			b.Fatal(err)
		}
		_ = le.Release(ctx)
	}
	ended, cancel := context.WithCancel(b.Context())
	cancel()
	_ = l.Shutdown(ended)
}
