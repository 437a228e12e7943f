// Package backoff says how long to wait before the next attempt. It keeps no state, so one setting may serve any number of calls at once.
package backoff

import (
	"math/rand/v2"
	"time"
)

// Exponential returns first doubled attempt times (0 is the first attempt), at most limit. It never overflows and is never negative (bsm/redislock#5, #8).
func Exponential(attempt int, first, limit time.Duration) time.Duration {
	limit = max(limit, 0)
	d := min(max(first, 0), limit)
	for ; attempt > 0 && d > 0 && d < limit; attempt-- {
		if d > limit/2 {
			return limit
		}
		d *= 2
	}
	return d
}

// Jitter returns a random duration between four fifths of d and d: waiters of one event must not ask in step.
func Jitter(d time.Duration) time.Duration {
	if d < 5 {
		return max(d, 0)
	}
	return d - rand.N(d/5)
}
