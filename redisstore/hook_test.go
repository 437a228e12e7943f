package redisstore_test

import (
	"context"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/picket-go/picket/internal/redistest"
	"github.com/picket-go/picket/redisstore"
)

// hook notes what commands it sees.
type hook struct {
	mu   sync.Mutex
	seen []string
}

func (h *hook) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		h.note("dial")
		return next(ctx, network, addr)
	}
}

func (h *hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		h.note(cmd.Name())
		return next(ctx, cmd)
	}
}

func (h *hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h *hook) note(what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.seen = append(h.seen, what)
}

func (h *hook) saw(what string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Contains(h.seen, what)
}

// TestHooksOfTheClientSeeWhatTheStoreSends if the client ends its calls with their ctx: else the Store must work on another, and go-redis gives that no hooks.
func TestHooksOfTheClientSeeWhatTheStoreSends(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	redistest.Start(t, redistest.ReplicaOf(master))
	for name, opts := range map[string][]redisstore.Option{
		"a call":           nil,
		"and its replicas": {redisstore.WithReplicas(1, time.Second)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := master.Options()
			o.ContextTimeoutEnabled = true
			c := redis.NewClient(o)
			t.Cleanup(func() { _ = c.Close() })
			s := store(t, c, opts...)
			var h hook
			c.AddHook(&h)
			if err := acquired(t, locker(t, s), redistest.Name(t)).Release(t.Context()); err != nil {
				t.Errorf("Release = %v", err)
			}
			for _, err := range s.List(t.Context(), "none") {
				t.Errorf("List yields %v", err)
			}
			want := []string{"dial", "evalsha", "scan"}
			if opts != nil {
				want = append(want, "wait")
			}
			for _, what := range want {
				if !h.saw(what) {
					t.Errorf("the hook has not seen %s, only %q", what, h.seen)
				}
			}
		})
	}
}

// TestACallOnTheCallersOwnClientLeavesOnTime: a server that stands still holds up nobody beyond its ctx, nor beyond a second without one.
func TestACallOnTheCallersOwnClientLeavesOnTime(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	o := server.Options()
	o.ContextTimeoutEnabled = true
	c := redis.NewClient(o)
	t.Cleanup(func() { _ = c.Close() })
	s := store(t, c)
	if _, err := s.Acquire(t.Context(), claim("k")); err != nil {
		t.Fatal(err)
	}
	server.Stop()
	for _, tt := range []struct{ bound, want time.Duration }{{200 * time.Millisecond, 200 * time.Millisecond}, {0, time.Second}} {
		ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
		if tt.bound > 0 {
			ctx, cancel = context.WithTimeout(ctx, tt.bound)
		}
		began := time.Now()
		_, err := s.Acquire(ctx, claim("k"))
		if took := time.Since(began); err == nil || took < tt.want || took > tt.want+500*time.Millisecond {
			t.Errorf("Acquire = %v after %v, want an error after %v", err, took, tt.want)
		}
		cancel()
	}
}
