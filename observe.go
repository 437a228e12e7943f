package picket

import (
	"context"
	"time"
)

// Observer is a set of hooks, nil ones are skipped (as in httptrace.ClientTrace). Hooks run outside all mutexes, those of one lease in order, those of several
// perhaps at once, and must not block: what has to be told of the same lease waits, and so does the call that tells it.
type Observer struct {
	_            struct{}
	AcquireStart func(ctx context.Context, key string) context.Context
	AcquireEnd   func(ctx context.Context, e AcquireEvent)
	ReleaseEnd   func(ctx context.Context, e ReleaseEvent)
	RenewEnd     func(e RenewEvent)
	LeaseChange  func(e LeaseEvent)
}

type (
	// AcquireEvent tells how an acquire ended.
	AcquireEvent struct {
		Key      string
		Lease    *Lease // nil if Err
		Err      error
		Waited   time.Duration
		Attempts int
	}
	// ReleaseEvent tells how a release ended.
	ReleaseEvent struct {
		Lease *Lease
		Err   error
		Held  time.Duration
	}
	// RenewEvent tells how one batch of renewals ended. Leases that were released meanwhile are left out.
	RenewEvent struct {
		Leases, Renewed, Lost, Unanswered int
		Took, Headroom                    time.Duration // Headroom: the least time left in the batch
	}
	// LeaseEvent is one change of a lease's state. Err is nil, the *LostError, or what made a renewal fail.
	LeaseEvent struct {
		Lease    *Lease
		From, To State
		Err      error
	}
)

// State of a lease: held, jeopardy (a renewal is late), ending (contexts have ended, not yet over), lost, released.
type State int

const (
	StateHeld State = iota
	StateJeopardy
	StateEnding
	StateLost
	StateReleased
)

func (s State) String() string {
	switch s {
	case StateHeld:
		return "held"
	case StateJeopardy:
		return "jeopardy"
	case StateEnding:
		return "ending"
	case StateLost:
		return "lost"
	case StateReleased:
		return "released"
	}
	return "unknown"
}
