package redisstore_test

import (
	"context"
	"errors"
	"flag"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/picket-go/picket"
	"github.com/picket-go/picket/internal/redistest"
	"github.com/picket-go/picket/redisstore"
)

// TestMain lets one test more run at once than there are processors: most of the time they wait. With many more, those starve that look at the time.
func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		_ = f.Value.Set(strconv.Itoa(runtime.NumCPU() + 1))
	}
	os.Exit(redistest.Main(m))
}

// client connects to a server, until the test ends.
func client(t testing.TB, s *redistest.Server) *redis.Client {
	c := redis.NewClient(s.Options())
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// store is a Store on c, closed with the test.
func store(t testing.TB, c redis.UniversalClient, opts ...redisstore.Option) *redisstore.Store {
	t.Helper()
	s, err := redisstore.New(c, opts...)
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.WithoutCancel(t.Context())
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			t.Errorf("Close = %v", err)
		}
	})
	return s
}

// locker is a Locker on s, shut down with the test.
func locker(t testing.TB, s picket.Store, opts ...picket.Option) *picket.Locker {
	t.Helper()
	l := picket.New(s, opts...)
	ctx := context.WithoutCancel(t.Context())
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		_ = l.Shutdown(ctx)
	})
	return l
}

// unsent reports whether err says that nothing was executed.
func unsent(err error) bool {
	u, ok := errors.AsType[interface {
		error
		Unsent() bool
	}](err)
	return ok && u.Unsent()
}
