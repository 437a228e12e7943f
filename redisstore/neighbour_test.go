package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/picket-go/picket"
	"github.com/picket-go/picket/internal/redistest"
)

// TestAForbiddenNameCostsItsNeighboursNothing: the server refuses a call because of one of its keys, and with it all other claims of the call.
func TestAForbiddenNameCostsItsNeighboursNothing(t *testing.T) {
	t.Parallel()
	rules := strings.NewReplacer("~lock:*", "~lock:{app*", "&lock:*", "&lock:{app*").Replace(documented(t))
	server := redistest.Start(t, redistest.WithACL("app", "pw", rules))
	o := server.Options()
	o.Username, o.Password = "app", "pw"
	c := redis.NewClient(o)
	t.Cleanup(func() { _ = c.Close() })
	s := store(t, c)
	if _, err := s.Acquire(t.Context(), claim("app")); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	server.Stop()
	for i := range 40 {
		wg.Go(func() {
			mine, secret := claim("app-"+strconv.Itoa(i)), claim("secret-"+strconv.Itoa(i))
			if i%8 == 0 {
				if _, err := s.Acquire(t.Context(), secret); !errors.Is(err, picket.ErrRefused) {
					t.Errorf("Acquire(%q) = %v, want refused", secret.Key, err)
				}
				return
			}
			if _, err := s.Acquire(t.Context(), mine); err != nil {
				t.Errorf("Acquire(%q) = %v", mine.Key, err)
			}
		})
	}
	time.AfterFunc(20*time.Millisecond, server.Cont)
	wg.Wait()
}

// TestAShortDeadlineCostsNoConnection: who has a goroutine of the Store's send for it can leave, and its call may end well.
func TestAShortDeadlineCostsNoConnection(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.StartProxy(t, server.Addr(), 1)
	s := store(t, behind(t, server, proxy))
	if _, err := s.Acquire(t.Context(), claim("warm")); err != nil {
		t.Fatal(err)
	}
	proxy.Sometimes(1, redistest.Delay(redistest.Replies, 30*time.Millisecond, 31*time.Millisecond), "evalsha")
	before := number(t, server.Info("stats")["total_connections_received"])
	parent, cancel := context.WithCancel(t.Context()) // so that the call is not on its caller's goroutine
	defer cancel()
	for i := range 20 {
		ctx, stop := context.WithTimeout(parent, 10*time.Millisecond)
		if _, err := s.Acquire(ctx, claim(fmt.Sprint(i))); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Acquire = %v, want that it left", err)
		}
		stop()
	}
	if after := number(t, server.Info("stats")["total_connections_received"]); after > before+5 {
		t.Errorf("%v connections were made for 20 callers that left", after-before)
	}
}
