package redisstore_test

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/picket-go/picket/internal/redistest"
	"github.com/picket-go/picket/redisstore"
)

// BenchmarkPairs is acquire and release by many callers, each on a key of its own, by Locker and by Store, with and without combining.
func BenchmarkPairs(b *testing.B) {
	server := redistest.Shared(b)
	for _, callers := range []int{1, 16, 256} {
		for _, way := range []struct {
			name string
			opts []redisstore.Option
		}{{"combined", nil}, {"apart", []redisstore.Option{redisstore.WithoutCombining()}}} {
			b.Run("callers="+strconv.Itoa(callers)+"/"+way.name, func(b *testing.B) {
				o := server.Options()
				o.PoolSize = 64
				c := redis.NewClient(o)
				b.Cleanup(func() { _ = c.Close() })
				l := locker(b, store(b, c, way.opts...))
				pairs(b, callers, func(ctx context.Context, key string) error {
					lease, err := l.Acquire(ctx, key)
					if err != nil {
						return err
					}
					return lease.Release(ctx)
				})
			})
		}
	}
}

// pairs calls f by so many callers, b.N times in all.
func pairs(b *testing.B, callers int, f func(ctx context.Context, key string) error) {
	ctx := context.WithoutCancel(b.Context())
	var left atomic.Int64
	left.Store(int64(b.N))
	b.ReportAllocs()
	b.ResetTimer()
	var wg sync.WaitGroup
	for i := range callers {
		key := "pairs-" + strconv.Itoa(i)
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				if err := f(ctx, key); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pairs/s")
}
