package redisstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/picket-go/picket"
	"github.com/picket-go/picket/internal/redistest"
	"github.com/picket-go/picket/redisstore"
)

// The store takes any client of one server, or of Sentinel. The application closes it.
func Example() { //nolint:testableexamples // needs a server
	client := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	defer client.Close()
	store, err := redisstore.New(client)
	if err != nil {
		panic(err)
	}
	defer store.Close(context.Background())
	locker := picket.New(store, picket.WithLabel("nightly report"))
	err = locker.Do(context.Background(), "report", func(ctx context.Context, lease *picket.Lease) error {
		return write(ctx, lease.Token())
	})
	if errors.Is(err, picket.ErrLost) {
		println("somebody else may have worked too; the token kept the report right")
	}
}

func write(context.Context, int64) error { return nil }

// TestTheSeedScenario is the one that the literature on distributed locks begins with: a holder pauses for longer than its lease. A holds for 3 s, works for 5 s, B takes
// over, A wakes. A's contexts are over with the reason, its release reports the loss and leaves B's lock alone, and its token is smaller than B's (F5, GL-32).
func TestTheSeedScenario(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	const key = "seed"
	a := locker(t, store(t, client(t, server)), picket.WithTTL(3*time.Second), picket.WithoutRenewal())
	b := locker(t, store(t, client(t, server)), picket.WithTTL(3*time.Second))

	held := acquired(t, a, key)
	began := time.Now()
	ctx := held.Context(t.Context())
	took := make(chan *picket.Lease, 1)
	go func() {
		lease, err := b.Acquire(t.Context(), key)
		if err != nil {
			t.Errorf("B: Acquire = %v", err)
		}
		took <- lease
	}()
	time.Sleep(5 * time.Second) // A works, and looks at nothing

	if err := held.Check(); !errors.Is(err, picket.ErrLost) {
		t.Errorf("A: Check = %v, want ErrLost", err)
	}
	lost, ok := errors.AsType[*picket.LostError](context.Cause(ctx))
	if !ok || lost.Reason != picket.ReasonExpired || lost.At.Sub(began) > 3*time.Second {
		t.Errorf("A: the context ended with %v, want expired within 3 s", context.Cause(ctx))
	}
	next := <-took
	if next == nil {
		return
	}
	if held.Token() >= next.Token() {
		t.Errorf("A has token %d, B %d, want a larger one", held.Token(), next.Token())
	}
	if err := held.Release(t.Context()); !errors.Is(err, picket.ErrLost) {
		t.Errorf("A: Release = %v, want ErrLost", err)
	}
	if _, err := next.Confirm(t.Context()); err != nil {
		t.Errorf("B: Confirm after A's release = %v", err)
	}
	if err := next.Release(t.Context()); err != nil {
		t.Errorf("B: Release = %v", err)
	}
}
