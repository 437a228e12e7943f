// Package lease is the arithmetic of a lease (DESIGN 3.2): pure functions, no clock is read.
//
// An Instant is a point on the holder's clock: the time since some fixed moment, asleep or awake. The holder counts from the moment before it asked, so that it believes
// in less time than the store gives it (Gray and Cheriton, "Leases", 1989).
package lease

import (
	"fmt"
	"math"
	"time"
)

// Instant is a point on the holder's clock.
type Instant = time.Duration

// Forever is the TTL and the deadline of a lease that no clock ends.
const Forever time.Duration = math.MaxInt64

// The least and the longest TTL.
const (
	MinTTL = 100 * time.Millisecond
	MaxTTL = 24 * time.Hour
)

// Margins is what the holder takes off a TTL.
type Margins struct {
	DriftRatio float64
	DriftFixed time.Duration
	Grace      time.Duration // used only if GraceSet
	GraceSet   bool
}

// Default takes 1 % and 2 ms for clock rates, and the default grace.
func Default() Margins { return Margins{DriftRatio: 0.01, DriftFixed: 2 * time.Millisecond} }

// Drift is what clocks of different rates may disagree on over one TTL.
func (m Margins) Drift(ttl time.Duration) time.Duration {
	return add(m.DriftFixed, time.Duration(m.DriftRatio*float64(ttl)))
}

// GraceOf is how long before the deadline contexts end: TTL/20, at least 50 ms, at most 2 s, never more than TTL/4, unless it was set.
func (m Margins) GraceOf(ttl time.Duration) time.Duration {
	if m.GraceSet {
		return m.Grace
	}
	return min(max(ttl/20, 50*time.Millisecond), 2*time.Second, ttl/4)
}

// Check refuses margins that leave less than half of ttl for work.
func (m Margins) Check(ttl time.Duration) error {
	grace, drift := m.GraceOf(ttl), m.Drift(ttl)
	if grace < 0 || m.DriftFixed < 0 || !(m.DriftRatio >= 0 && m.DriftRatio < 1) {
		return fmt.Errorf("grace %s and drift %v + %s must not be negative, and the drift ratio below 1", grace, m.DriftRatio, m.DriftFixed)
	}
	if drift > ttl/2 || grace > ttl/2-drift {
		return fmt.Errorf("grace %s + drift %s = %s is more than half of the TTL %s", grace, drift, add(grace, drift), ttl)
	}
	return nil
}

// Window is what the holder may believe: its contexts end at End, and at Deadline the lease may be over at the store.
type Window struct{ Deadline, End Instant }

// Terms are the terms of one lease.
type Terms struct {
	Margins Margins
	TTL     time.Duration // what the holder asked for; its grace follows from it
	Limit   Instant       // granted + MaxHold, or Forever
}

// Window of a lease whose request left at t0 and that the store gave ttl.
func (t Terms) Window(t0 Instant, ttl time.Duration) Window {
	deadline := Forever
	if ttl != Forever {
		deadline = add(t0, ttl-t.Margins.Drift(ttl))
	}
	deadline = min(deadline, t.Limit)
	if deadline == Forever {
		return Window{Forever, Forever}
	}
	return Window{deadline, deadline - t.Margins.GraceOf(t.TTL)}
}

// AskTTL is what to ask of the store at now: the TTL, or what is left until the limit, so that the record ends with the hold.
func (t Terms) AskTTL(now Instant) time.Duration {
	left := t.Limit - now
	if left >= t.TTL {
		return t.TTL
	}
	return min(t.TTL, max(left+t.Margins.Drift(t.TTL), MinTTL))
}

// Until is the limit of a lease granted at t that may be held for hold.
func Until(t Instant, hold time.Duration) Instant { return add(t, hold) }

// RenewAt is when the next renewal is due after one whose request left at t0: after a third of the TTL, or of what the store gave if that is less. Forever if it could not
// move the deadline.
func (t Terms) RenewAt(t0 Instant, w Window) Instant {
	if w.Deadline == t.Limit && w.Deadline != Forever {
		return Forever
	}
	term := t.TTL
	if w.Deadline != Forever {
		term = min(term, add(w.Deadline-t0, t.Margins.Drift(term)))
	}
	return add(t0, term/3)
}

// RetryAfter is how long to wait after the n-th renewal in a row without an answer (n ≥ 1): quickly, since all of it is inside the lease.
func (t Terms) RetryAfter(n int) time.Duration {
	d := max(t.TTL/60, 5*time.Millisecond)
	return min(d<<min(n-1, 5), time.Second)
}

func add(t Instant, d time.Duration) Instant {
	if d > 0 && t > Forever-d {
		return Forever
	}
	return t + d
}
