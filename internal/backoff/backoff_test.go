package backoff_test

import (
	"math"
	"sync"
	"testing"
	"time"

	"github.com/picket-go/picket/internal/backoff"
)

// GL-45: a strategy that counts inside itself gives the second of two callers fewer attempts.
func TestFiftyCallersShareOneStrategy(t *testing.T) {
	t.Parallel()
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			last := time.Duration(0)
			for attempt := range 200 {
				d := backoff.Exponential(attempt, 5*time.Millisecond, 250*time.Millisecond)
				if want := min(5*time.Millisecond<<min(attempt, 10), 250*time.Millisecond); d != want {
					t.Errorf("attempt %d waits %s, want %s", attempt, d, want)
				}
				if d <= 0 || d < last {
					t.Errorf("attempt %d waits %s after %s", attempt, d, last)
				}
				last = d
			}
			if last != 250*time.Millisecond {
				t.Errorf("grew to %s, want the limit", last)
			}
		})
	}
	wg.Wait()
}

// bsm/redislock#5, #8: doubling went negative, or to zero, and the loop spun.
func TestExponentialNeverOverflows(t *testing.T) {
	t.Parallel()
	for _, limit := range []time.Duration{0, 1, time.Second, math.MaxInt64/2 + 1, math.MaxInt64 - 1, math.MaxInt64} {
		for _, first := range []time.Duration{-1, 0, 1, 3, time.Second, math.MaxInt64} {
			last := time.Duration(0)
			for _, attempt := range []int{-1, 0, 1, 2, 10, 61, 62, 63, 64, 1000, math.MaxInt} {
				d := backoff.Exponential(attempt, first, limit)
				if d < last || d > limit {
					t.Errorf("attempt %d from %d: %d after %d, limit %d", attempt, first, d, last, limit)
				}
				last = d
			}
			if first > 0 && last != limit {
				t.Errorf("from %d: grew to %d, want %d", first, last, limit)
			}
		}
	}
}

func TestJitterTakesAtMostAFifth(t *testing.T) {
	t.Parallel()
	for _, d := range []time.Duration{0, 1, 4, 5, 6, time.Millisecond, time.Second, math.MaxInt64} {
		for range 1000 {
			if j := backoff.Jitter(d); j > d || j < d-d/5 {
				t.Fatalf("%d became %d", d, j)
			}
		}
	}
	if j := backoff.Jitter(-time.Second); j != 0 {
		t.Errorf("-1s became %s", j)
	}
}

func TestJitterSpreadsWaitersOfOneEvent(t *testing.T) {
	t.Parallel()
	seen := map[time.Duration]bool{}
	for range 100 {
		seen[backoff.Jitter(time.Second)] = true
	}
	if len(seen) < 50 {
		t.Errorf("100 waiters ask at %d different times", len(seen))
	}
}
