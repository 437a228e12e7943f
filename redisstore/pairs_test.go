package redisstore

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/picket-go/picket"
	"github.com/picket-go/picket/internal/redistest"
)

// BenchmarkPairs is acquire and release by many callers, each on a key of its own: by this store, by it for callers that may leave, by it without combining, by it
// without combining and over go-redis' autopipeliner, and by the least that can be called a lock: SET NX PX and a script that compares and deletes.
func BenchmarkPairs(b *testing.B) {
	ways := map[string]func(*testing.B, *redis.Client) func(context.Context, string) error{
		"combined": func(b *testing.B, c *redis.Client) func(context.Context, string) error { return locking(b, c) },
		"cancellable": func(b *testing.B, c *redis.Client) func(context.Context, string) error {
			lock := locking(b, c)
			ctx, cancel := context.WithCancel(b.Context())
			b.Cleanup(cancel)
			return func(_ context.Context, key string) error { return lock(ctx, key) }
		},
		"apart": func(b *testing.B, c *redis.Client) func(context.Context, string) error {
			return locking(b, c, WithoutCombining())
		},
		"autopipelined": autopipelined,
		"plain":         plain,
	}
	server := redistest.Shared(b)
	for _, callers := range []int{1, 16, 256} {
		for _, name := range []string{"combined", "cancellable", "apart", "autopipelined", "plain"} {
			b.Run("callers="+strconv.Itoa(callers)+"/"+name, func(b *testing.B) {
				o := server.Options()
				o.PoolSize = 64
				c := redis.NewClient(o)
				b.Cleanup(func() { _ = c.Close() })
				measurePairs(b, callers, ways[name](b, c))
			})
		}
	}
}

func locking(b *testing.B, c *redis.Client, opts ...Option) func(context.Context, string) error {
	s, err := New(c, opts...)
	if err != nil {
		b.Fatal(err)
	}
	ctx := context.WithoutCancel(b.Context())
	b.Cleanup(func() { _ = s.Close(ctx) })
	return lockingWith(s)
}

func lockingWith(s *Store) func(context.Context, string) error {
	l := picket.New(s)
	return func(ctx context.Context, key string) error {
		lease, err := l.Acquire(ctx, key)
		if err != nil {
			return err
		}
		return lease.Release(ctx)
	}
}

func autopipelined(b *testing.B, c *redis.Client) func(context.Context, string) error {
	pipe, err := c.AutoPipeline()
	if err != nil {
		b.Fatal(err)
	}
	s, err := New(c, WithoutCombining())
	if err != nil {
		b.Fatal(err)
	}
	l := s.home.grants
	l.flying, l.most = 1024, 1024
	l.carry = func(ctx context.Context, es []*entry, args []any) []any {
		args = arguments(es, args)
		raw, err := eval(ctx, pipe, claimRequest(es, args))
		share(es, raw, err)
		return args
	}
	return lockingWith(s)
}

func plain(_ *testing.B, c *redis.Client) func(context.Context, string) error {
	del := redis.NewScript(`if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) end return 0`)
	return func(ctx context.Context, key string) error {
		if err := c.SetNX(ctx, key, "token", 30*time.Second).Err(); err != nil {
			return err
		}
		return del.Run(ctx, c, []string{key}, "token").Err()
	}
}

// measurePairs calls f by so many callers, b.N times in all.
func measurePairs(b *testing.B, callers int, f func(ctx context.Context, key string) error) {
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
