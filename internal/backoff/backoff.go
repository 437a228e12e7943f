// Package backoff says how long to wait before the next attempt. It keeps no state, so one setting may serve any number of calls at once.
package backoff

import (
	"math/rand/v2"
	"time"
)

// Exponential returns first doubled attempt times (0 is the first attempt), at most limit. It never overflows and is never negative (bsm/redislock#5, #8).
func Exponential(attempt int, first, limit time.Duration) time.Duration {
	d := max(first, 0)
	for ; attempt > 0 && d < limit; attempt-- {
		d = min(2*d, limit)
	}
	return min(d, limit)
}

// Jitter returns a random duration between four fifths of d and d: waiters of one event must not ask in step.
func Jitter(d time.Duration) time.Duration {
	if d < 5 {
		return max(d, 0)
	}
	return d - rand.N(d/5)
}
