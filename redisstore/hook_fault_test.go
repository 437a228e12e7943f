package redisstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/picket-go/picket"
	"github.com/picket-go/picket/internal/redistest"
)

// process is a hook for single commands.
type process func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error

func (process) DialHook(next redis.DialHook) redis.DialHook { return next }

func (p process) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { return p(ctx, cmd, next) }
}

func (process) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// hooked is a client whose hooks see the commands of a store.
func hooked(t *testing.T, server *redistest.Server, size int) *redis.Client {
	o := server.Options()
	o.ContextTimeoutEnabled, o.PoolSize = true, size
	c := redis.NewClient(o)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// TestAHookThatPanicsUsesUpNoWay when its caller lives on: calls that ended in a panic no longer count as under way.
func TestAHookThatPanicsUsesUpNoWay(t *testing.T) {
	t.Parallel()
	const size = 3
	c := hooked(t, redistest.Start(t), size)
	s := store(t, c)
	panics := 0
	c.AddHook(process(func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
		if panics++; panics <= size {
			panic("a bug of the hook")
		}
		return next(ctx, cmd)
	}))
	ctx := context.WithoutCancel(t.Context())
	for range size {
		func() {
			defer func() { _ = recover() }()
			_, _ = s.Acquire(ctx, claim("k"))
		}()
		time.Sleep(60 * time.Millisecond) // until the call would be overdue, so that the next one may leave
	}
	if _, err := s.Acquire(ctx, claim("k")); err != nil {
		t.Errorf("Acquire = %v, want a grant: nothing is under way", err)
	}
}

// TestACallThatAHookGaveUpSendsNoOtherClaim: circuit breakers and time limits return while the call goes on behind them. It may still be sent, but must not be another claim's
// by then.
func TestACallThatAHookGaveUpSendsNoOtherClaim(t *testing.T) {
	t.Parallel()
	c := hooked(t, redistest.Start(t), 10)
	s, other := store(t, c), store(t, c)
	ctx := context.WithoutCancel(t.Context())
	warm := claim("warm")
	if _, err := s.Acquire(ctx, warm); err != nil {
		t.Fatal(err)
	}
	gate, ended, first := make(chan struct{}), make(chan error, 1), true
	c.AddHook(process(func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
		if !first {
			return next(ctx, cmd)
		}
		first = false
		go func() {
			<-gate
			ended <- next(ctx, cmd)
		}()
		return errors.New("too slow")
	}))
	if _, err := s.Acquire(ctx, claim("a")); err == nil {
		t.Fatal("the hook gave nothing up")
	}
	second := claim("b")
	if _, err := s.Acquire(ctx, second); err != nil {
		t.Fatal(err)
	}
	if err := other.Release(ctx, second); err != nil {
		t.Fatal(err)
	}
	close(gate)
	<-ended
	if text, err := c.Get(ctx, "lock:{b}").Result(); !errors.Is(err, redis.Nil) {
		t.Errorf("the claim that was released is back: %q, %v", text, err)
	}
}

// TestAClaimThatFoundNoConnectionIsNotInDoubt: nothing was sent while all of the pool were busy with something else.
func TestAClaimThatFoundNoConnectionIsNotInDoubt(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	o := server.Options()
	o.PoolSize = 1
	c := redis.NewClient(o)
	t.Cleanup(func() { _ = c.Close() })
	s := store(t, c)
	ctx := context.WithoutCancel(t.Context())
	busy := c.Conn()
	defer busy.Close()
	if err := busy.Ping(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	_, err := s.Acquire(ctx, claim("k"))
	if !errors.Is(err, picket.ErrUnavailable) || !unsent(err) {
		t.Errorf("Acquire = %v, want ErrUnavailable and no doubt", err)
	}
}

// TestWhatExhaustsTheTokensIsRefusedBeforeAnythingIsGivenBack.
func TestWhatExhaustsTheTokensIsRefusedBeforeAnythingIsGivenBack(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	c := client(t, server)
	s := store(t, c)
	ctx := t.Context()
	exhausted := func(key string) picket.Claim {
		t.Helper()
		holder := claim(key)
		if _, err := s.Acquire(ctx, holder); err != nil {
			t.Fatal(err)
		}
		if err := c.Set(ctx, "lock:{"+key+"}:fence", "9007199254740990", time.Hour).Err(); err != nil {
			t.Fatal(err)
		}
		return holder
	}
	released := exhausted("r")
	waiter := claim("r")
	waiter.Queue = true
	if _, err := s.Acquire(ctx, waiter); !errors.Is(err, picket.ErrBusy) {
		t.Fatalf("Acquire = %v", err)
	}
	if err := s.Release(ctx, released); err != nil {
		t.Errorf("Release = %v, although it works", err)
	}
	from := exhausted("t")
	if _, err := s.Transfer(ctx, from, claim("t")); !errors.Is(err, picket.ErrRefused) {
		t.Errorf("Transfer = %v, want ErrRefused", err)
	}
	if n := c.Exists(ctx, "lock:{t}").Val(); n != 1 {
		t.Error("the transfer was refused, but the first claim has lost its record")
	}
}
