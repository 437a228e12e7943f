package redisstore

import (
	"context"
	"time"
)

// flight is one call for some claims, and the context of that call. A context of package context would need a timer of its own: the lane has one for all.
type flight struct {
	values       context.Context
	began, until time.Time
	es           []*entry
	args         []any // of es, if they are several
	end          chan struct{}
	over         bool // end is closed; guarded by the lane's mu
}

var _ context.Context = (*flight)(nil)

func newFlight(values context.Context, now time.Time, limit time.Duration, es []*entry) *flight {
	return &flight{values: values, began: now, until: now.Add(limit), es: es, end: make(chan struct{})}
}

// expire ends the call if its time is over, and reports whether it is. The lane's mu is held.
func (f *flight) expire(now time.Time) bool {
	if f.until.After(now) {
		return false
	}
	if !f.over {
		f.over = true
		close(f.end)
	}
	return true
}

// Deadline is what go-redis sets on the socket.
func (f *flight) Deadline() (time.Time, bool) { return f.until, true }

// Done is closed soon after the deadline: go-redis listens while it dials, and while it waits for a connection of its pool.
func (f *flight) Done() <-chan struct{} { return f.end }

// Err tells the end exactly.
func (f *flight) Err() error {
	if f.until.After(time.Now()) {
		return nil
	}
	return context.DeadlineExceeded
}

// Value is the caller's, if the flight is for one claim.
func (f *flight) Value(key any) any { return f.values.Value(key) }
