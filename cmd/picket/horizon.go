package main

import (
	"errors"
	"sync"
	"time"

	"github.com/picket-go/picket"
)

// horizon knows when the lease's contexts end if nothing is heard any more. Whoever learns of a loss too late, after a stop or a sleep of the machine, has less
// than the grace left.
type horizon struct {
	mu    sync.Mutex
	lease *picket.Lease
	at    time.Time // zero: no clock ends it
}

// follow begins with a lease, or with nothing.
func (h *horizon) follow(le *picket.Lease) {
	h.mu.Lock()
	h.lease = le
	h.mu.Unlock()
	h.move()
}

// move is called after each renewal.
func (h *horizon) move() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lease == nil {
		return
	}
	switch left := h.lease.Remaining(); left {
	case 0: // it is over, and the last horizon stands
	case picket.NoExpiry:
		h.at = time.Time{}
	default:
		h.at = time.Now().Add(left)
	}
}

// late is how long after the horizon now is. Two clocks are read: the monotonic one does not count a sleep of the machine, the wall clock may be set.
func (h *horizon) late(now time.Time) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.at.IsZero() {
		return 0
	}
	return max(0, now.Sub(h.at), now.Round(0).Sub(h.at.Round(0)))
}

// definiteBound is how long a job may go on when the store says that the lease is over: somebody else may hold the key already.
const definiteBound = time.Second

// killAfter returns how long after SIGTERM the group gets SIGKILL. At the end of left, the rest of the grace, it must be dead: the kernel needs some of that time
// to take down a large process, and we to notice.
func killAfter(lost error, grace, late time.Duration) time.Duration {
	left := max(0, grace-late)
	if le, ok := errors.AsType[*picket.LostError](lost); ok {
		switch le.Reason {
		case picket.ReasonExpired, picket.ReasonUnreachable, picket.ReasonMaxHold:
		default:
			return min(left, definiteBound)
		}
	}
	return left - max(left/4, min(left/2, 200*time.Millisecond))
}
