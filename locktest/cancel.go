package locktest

import (
	"context"
	"errors"
	"time"

	"github.com/picket-go/picket"
)

var cancelling = theme{"ctx", []check{
	{"an acquire with an ended ctx returns its error and leaves nothing", 0, acquireEnded},
	{"a renewal with an ended ctx is no loss", 0, renewEnded},
	{"a release with an ended ctx returns its error and releases nothing", 0, releaseEnded},
	{"an inspect with an ended ctx returns its error", 0, inspectEnded},
	{"an ended ctx is obeyed at once", 0, endedAtOnce},
}}

// ended returns contexts that are over.
func (e *env) ended() map[error]context.Context {
	canceled, cancel := context.WithCancel(e.Context())
	cancel()
	passed, cancel := context.WithDeadline(e.Context(), time.Now().Add(-time.Hour))
	e.Cleanup(cancel)
	return map[error]context.Context{context.Canceled: canceled, context.DeadlineExceeded: passed}
}

// acquireEnded covers L7: nothing is sent, so nothing is left.
func acquireEnded(e *env) {
	for want, ctx := range e.ended() {
		c := e.waiter(e.key())
		if _, err := e.store.Acquire(ctx, c); !errors.Is(err, want) {
			e.Errorf("Acquire = %v, want %v", err, want)
		}
		if s := e.state(c.Key, picket.StatusFree); s.Token != 0 {
			e.Errorf("token %d was minted", s.Token)
		}
		holder := e.granted(e.claim(c.Key)).Claim
		if _, err := e.store.Acquire(ctx, c); !errors.Is(err, want) {
			e.Errorf("Acquire of a held key = %v, want %v", err, want)
		}
		if s := e.heldBy(holder); s.Waiters > 0 {
			e.Errorf("%d waiters, want none", s.Waiters)
		}
	}
}

// renewEnded covers L11: no answer is not a loss.
func renewEnded(e *env) {
	for want, ctx := range e.ended() {
		l := e.granted(e.claim(e.key()))
		e.store.Renew(ctx, []picket.Claim{l.Claim}, func(_ int, err error) {
			if !errors.Is(err, want) || errors.Is(err, picket.ErrLost) {
				e.Errorf("Renew reported %v, want nothing or %v", err, want)
			}
		})
		e.remains(l, l.ttl())
		e.stillHolds(l.Claim)
	}
}

// releaseEnded covers GL-06.
func releaseEnded(e *env) {
	for want, ctx := range e.ended() {
		l := e.granted(e.claim(e.key()))
		if err := e.store.Release(ctx, l.Claim); !errors.Is(err, want) {
			e.Errorf("Release = %v, want %v", err, want)
		}
		e.stillHolds(l.Claim)
		e.release(l.Claim)
	}
}

func inspectEnded(e *env) {
	for want, ctx := range e.ended() {
		if _, err := e.store.Inspect(ctx, e.key()); !errors.Is(err, want) {
			e.Errorf("Inspect = %v, want %v", err, want)
		}
	}
}

func endedAtOnce(e *env) {
	holder := e.granted(e.claim(e.key())).Claim
	for _, ctx := range e.ended() {
		start := time.Now()
		_, _ = e.store.Acquire(ctx, e.waiter(holder.Key))
		e.store.Renew(ctx, []picket.Claim{holder}, func(int, error) {})
		_ = e.store.Release(ctx, holder)
		if took := time.Since(start); took > late {
			e.Errorf("three calls with an ended ctx took %v", took)
		}
	}
	e.stillHolds(holder)
}
