package picket

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/picket-go/picket/internal/bound"
	"github.com/picket-go/picket/internal/lease"
)

// release is how far the giving back of a lease has come. Guarded by the lease's mutex.
type release struct {
	begun    bool // the claim is dead for the renewer
	running  bool
	final    bool
	err      error
	wait     chan struct{} // made by who waits for the running one
	owned    bool          // Shutdown waits for its calls, and ends them when it loses patience; not those of a caller that comes later
	unheard  bool          // an attempt went unanswered: "not yours" may be its late success
	reported bool          // the state has been changed
}

// Release gives the key back. A ctx that has already ended is not an obstacle (its values are used); one that ends later ends the waiting, not the release.
// It returns nil (ours until now), a *LostError (somebody may have worked beside us), or ErrUncertain (no answer; the key is free after Remaining at the latest).
// It waits at most 3 s or the remaining lease. Further calls return the first result, or try again after ErrUncertain or ErrRefused.
func (l *Lease) Release(ctx context.Context) error {
	l.look(l.core.clock.now()) // now, since an observer who hears of a loss may call Release
	l.mu.Lock()
	if l.release.final {
		defer l.mu.Unlock()
		return l.release.err
	}
	if l.release.running {
		return l.await(ctx)
	}
	begun := l.beginRelease()
	l.mu.Unlock()
	begun.run()
	if ctx.Err() != nil { // also when it is the lease's own
		ctx = context.WithoutCancel(ctx)
	}
	return l.giveBack(ctx)
}

// await waits for the running release; mu is held on entry.
func (l *Lease) await(ctx context.Context) error {
	if l.release.wait == nil {
		l.release.wait = make(chan struct{})
	}
	wait := l.release.wait
	l.mu.Unlock()
	ended := ctx.Done()
	if ctx.Err() != nil {
		ended = nil // no obstacle
	}
	select {
	case <-wait:
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.release.err
	case <-ended:
		return l.uncertain(ctx, nil)
	}
}

// beginRelease marks the claim dead before anything is sent: a renewal in flight can neither resurrect nor re-arm it (redisson#7272). mu is held.
func (l *Lease) beginRelease() later {
	l.release.begun, l.release.running = true, true
	return later{l.finish(ErrReleased), func() { l.core.renewer.remove(l) }}
}

// giveBack sends the release and settles its outcome. When ctx ends, the caller leaves, and the release goes on without it.
func (l *Lease) giveBack(ctx context.Context) (err error) {
	err = errNoAnswer
	left := false
	defer func() { // also when the store panics: else the next Release would wait for this one for ever
		if !left {
			err = l.given(ctx, err)
		}
		if more := ctxErrors(ctx); more != nil && errors.Is(err, ErrUncertain) { // of this caller alone
			err = explain(err.Error(), err, more...)
		}
	}()
	err = l.sendRelease(ctx)
	left = errors.Is(err, ErrUncertain) && ctx.Err() != nil && l.core.spawn(func() { _ = l.giveBack(context.WithoutCancel(ctx)) })
	return err
}

// given takes the outcome of a release.
func (l *Lease) given(ctx context.Context, err error) error {
	if errors.Is(err, errNoAnswer) {
		l.markUnheard()
	}
	l.mu.Lock()
	switch {
	case errors.Is(err, ErrLost):
		if l.loss == nil {
			l.loss = l.lostFor(l.reasonOf(err, l.core.clock.now()))
		}
		l.conclude(StateLost, l.loss, true)
	case l.state == StateLost:
		l.conclude(StateLost, l.loss, true)
	default:
		l.conclude(StateReleased, err, err == nil)
	}
	l.release.running, l.release.owned = false, false
	err = l.release.err
	wait := l.release.wait
	l.release.wait = nil
	if len(l.set.observers) > 0 {
		held := l.core.clock.now() - l.granted
		l.observe(func() { l.set.releaseEnd(ctx, ReleaseEvent{Lease: l, Err: err, Held: held}) })
	}
	l.mu.Unlock()
	defer func() { // also when an observer panics
		l.core.forget(l)
		if wait != nil { // the caller finds its observers told
			close(wait)
		}
	}()
	l.tell()
	return err
}

// conclude records the outcome of a release. mu is held.
func (l *Lease) conclude(to State, err error, final bool) {
	l.release.err, l.release.final = err, final
	if !l.release.reported && l.state != to {
		l.release.reported = true
		l.change(to, err)
	}
}

// sendRelease asks the store until it answers, for 3 s or the rest of the lease.
func (l *Lease) sendRelease(ctx context.Context) error {
	c := l.core
	if c.hold() {
		defer c.leave()
		l.own()
	}
	now := c.clock.now()
	claim, deadline, lost, denied := l.releaseTerms()
	if denied && !claim.Doubt {
		return l.loss
	}
	until := now + min(tryBound, max(deadline-now, 50*time.Millisecond))
	if lost { // only a courtesy to those who wait
		until = now + l.set.attemptBound()
	} else if swapped, err := c.swap(ctx, l, claim, until); swapped {
		return l.heard(err, deadline)
	} else if err != nil { // it took its time
		now = c.clock.now()
	}
	for n := 0; ; n++ {
		call := l.releaseCall(ctx, min(until, now+l.set.attemptBound()))
		err := c.store.Release(call, claim)
		call.Stop()
		switch {
		case err == nil:
			c.nudge(claim.Key)
			return nil
		case errors.Is(err, ErrLost):
			return l.heard(err, deadline)
		case definite(err):
			return named("release", claim.Key, err)
		}
		if !unsent(err) {
			l.markUnheard()
		}
		pause := retryAfter(n)
		if until-c.clock.now() <= pause || !c.wait(ctx, pause) {
			return l.uncertain(context.WithoutCancel(ctx), err)
		}
		now = c.clock.now()
	}
}

func (l *Lease) own() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.release.owned = true
}

// releaseCall bounds one call of the running release.
func (l *Lease) releaseCall(ctx context.Context, until lease.Instant) *bound.Context {
	c := l.core
	l.mu.Lock()
	owned := l.release.owned
	l.mu.Unlock()
	if owned {
		return c.until(ctx, until)
	}
	return bound.Until(ctx, c.clock.at(until))
}

func (l *Lease) releaseTerms() (claim Claim, deadline lease.Instant, lost, denied bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	claim = *l.claim
	claim.Doubt = l.doubt
	return claim, l.window.Deadline, l.state == StateLost, l.denied
}

// heard is what a final answer to a release says. "Not yours" is not to be believed after an attempt that went unanswered, before the local deadline: nobody else deletes by
// id, so that attempt has worked (DESIGN 3.5).
func (l *Lease) heard(err error, deadline lease.Instant) error {
	if !errors.Is(err, ErrLost) {
		return err
	}
	now := l.core.clock.now()
	l.mu.Lock()
	worked := l.release.unheard && now < deadline
	l.mu.Unlock()
	if !worked {
		return err
	}
	l.core.nudge(l.claim.Key)
	return nil
}

func (l *Lease) markUnheard() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.release.unheard = true
}

// uncertain is the error of a release whose last attempt ended with err, or that ctx left.
func (l *Lease) uncertain(ctx context.Context, err error) error {
	l.mu.Lock()
	left := l.window.Deadline - l.core.clock.now() + l.terms.Margins.Drift(l.terms.TTL)
	if l.window.Deadline == lease.Forever {
		left = NoExpiry
	}
	l.mu.Unlock()
	text := fmt.Sprintf("picket: release of %q (token %d): outcome unknown", l.Key(), l.Token())
	if left < NoExpiry {
		text += fmt.Sprintf(", the key is free in %s at the latest", max(0, left).Round(time.Millisecond))
	}
	return silence(ctx, text, ErrUncertain, err)
}
