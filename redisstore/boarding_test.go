package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/picket-go/picket"
)

var errLanded = errors.New("landed")

// TestAFullCallWaitsForOneLess: two calls may be under way, and a third one that is full, as nothing could make it any larger.
func TestAFullCallWaitsForOneLess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}) // never dials; New would look a name up
		s, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		var calls []int
		land := make(chan signal)
		s.home.grants.carry = func(_ context.Context, es []*entry, args []any) []any {
			calls = append(calls, len(es)) // one by one: each begins while all else is blocked
			<-land
			share(es, nil, errLanded)
			return args
		}
		callers := 0
		come := func(n int, want ...int) {
			t.Helper()
			for range n {
				callers++
				claim := picket.Claim{ID: fmt.Sprintf("%026d", callers), Key: fmt.Sprint(callers), TTL: 30 * time.Second}
				go func() {
					if _, err := s.Acquire(t.Context(), claim); !errors.Is(err, errLanded) {
						t.Errorf("Acquire = %v", err)
					}
				}()
				synctest.Wait()
			}
			synctest.Wait()
			if !slices.Equal(calls, want) {
				t.Errorf("%d callers in calls of %v claims, want %v", callers, calls, want)
			}
		}
		come(1, 1)
		come(1, 1, 1)
		come(laneClaims-1, 1, 1)
		come(1, 1, 1, laneClaims)
		come(laneClaims, 1, 1, laneClaims)
		land <- signal{}
		come(0, 1, 1, laneClaims, laneClaims)
		close(land)
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
