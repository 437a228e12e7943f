package picket

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/picket-go/picket/internal/backoff"
	"github.com/picket-go/picket/internal/lease"
)

const (
	tryBound  = 3 * time.Second // of TryAcquire and of Release
	recheck   = 3 * time.Second // a waiter asks at least this often
	undoBound = 30 * time.Second
)

// pending is a claim that is not a lease yet, and what the store may know of it.
type pending struct {
	claim  Claim
	doubt  bool  // an attempt had no clear answer; sticky until the claim's end (DESIGN 3.1)
	queued bool  // the store may have a place for it
	said   error // why the store could not grant it, the last time that it said so
}

func newPending(key string, queue bool) *pending {
	return &pending{claim: Claim{ID: rand.Text(), Key: key, Queue: queue}}
}

// dress gives the claim the settings of l, before it is sent: waiters of different settings share one place.
func (l *Locker) dress(p *pending) {
	s := &l.set
	p.claim.TTL, p.claim.MinHold, p.claim.LockDelay = s.term(), s.minHold, s.lockDelay
	p.claim.Holder = Holder{ID: p.claim.ID, Host: hostname(), PID: pid, Since: time.Now().Truncate(time.Millisecond), Label: s.label}
	if p.claim.Queue {
		p.claim.Recheck = recheck
	}
}

// attemptBound is how long one attempt may go unanswered before the claim is sent again.
func (s *settings) attemptBound() time.Duration {
	return min(max(s.term()/2, 50*time.Millisecond), time.Second)
}

// errLate is a grant that came after its own end.
var errLate = errors.New("picket: grant came after its own end")

// ask sends the claim once. It returns a lease, or an error: errLate when the claim is burnt, else the store's.
func (l *Locker) ask(ctx context.Context, p *pending, limit time.Duration) (*Lease, error) {
	c := l.core
	t0 := c.clock.now()
	call := c.until(ctx, t0+min(limit, l.set.attemptBound()))
	grant, err := c.store.Acquire(call, p.claim)
	call.Stop()
	return l.answer(ctx, p, t0, grant, err)
}

// answer is what an answer to a request for p, sent at t0, makes of it.
func (l *Locker) answer(ctx context.Context, p *pending, t0 lease.Instant, grant Grant, err error) (*Lease, error) {
	if err != nil {
		return nil, p.note(err)
	}
	le := newLease(l, p, grant, t0)
	switch {
	case l.core.clock.exact() >= le.window.End:
		p.doubt = true // its hold at the store may be over: nothing of it may come back
		l.burn(ctx, p)
		return nil, errLate
	case !l.core.adopt(le):
		l.burn(ctx, p)
		return nil, ErrClosed
	}
	l.core.renewer.add(le)
	return le, nil
}

// note remembers what err says of the claim at the store. It returns err, or if that only says that the time of an attempt was over, what the store said before.
func (p *pending) note(err error) error {
	busy := errors.Is(err, ErrBusy)
	switch {
	case definite(err), unsent(err):
	case busy:
		p.queued = p.claim.Queue
	default:
		p.doubt = true
	}
	switch {
	case busy, definite(err):
		p.said = nil
	case !outOfTime(err):
		p.said = err
	case p.said != nil:
		return p.said
	}
	return err
}

// burn ends a granted claim that nobody will hold, and waits for it a little, until ctx ends: the next claim on the key would be busy because of it.
func (l *Locker) burn(ctx context.Context, p *pending) {
	c, claim := l.core, p.undone()
	if err := c.undoOnce(ctx, claim, l.set.attemptBound()); unanswered(err) {
		c.undo(ctx, claim)
	}
}

// abandon leaves the queue and undoes a claim in doubt, behind the caller's back: it must leave on time. The caller has entered.
func (c *core) abandon(ctx context.Context, p *pending) {
	if p == nil || !p.doubt && !p.queued {
		return
	}
	c.undo(ctx, p.undone())
}

// undone is the claim as it is given up: nobody has worked under it, so it leaves no MinHold.
func (p *pending) undone() Claim {
	claim := p.claim
	claim.Doubt, claim.MinHold = p.doubt, 0
	return claim
}

// undo releases by id until the store has answered, for up to one TTL: an undo that cannot be delivered leaves a ghost for that long anyway.
func (c *core) undo(ctx context.Context, claim Claim) {
	c.spawn(func() {
		call := c.detached(ctx, min(max(claim.TTL, tryBound), undoBound))
		defer call.Stop()
		for n := 0; unanswered(c.undoOnce(call, claim, time.Second)); n++ {
			if !c.wait(call, backoff.Jitter(backoff.Exponential(n, 20*time.Millisecond, time.Second))) { // more seldom than retryAfter: nobody waits
				return
			}
		}
	})
}

// undoOnce bounds the attempt: a request that was lost must not use up the time of those that may arrive.
func (c *core) undoOnce(ctx context.Context, claim Claim, limit time.Duration) error {
	call := c.bounded(ctx, limit)
	defer call.Stop()
	return c.store.Release(call, claim)
}

// unanswered reports whether a release got no answer.
func unanswered(err error) bool { return err != nil && !errors.Is(err, ErrLost) && !definite(err) }

// try makes one attempt, repeated with the same claim while there is no answer, for tryBound at most.
func (l *Locker) try(ctx context.Context, key string) (le *Lease, attempts int, err error) {
	p := newPending(key, false)
	defer func() {
		if le == nil {
			l.core.abandon(ctx, p)
		}
	}()
	began := l.core.clock.now()
	for {
		left := tryBound - (l.core.clock.now() - began)
		if l.core.stopping() {
			return nil, attempts, ErrClosed
		}
		if ctx.Err() != nil || left <= 0 {
			return nil, attempts, l.unavailable(ctx, key, l.core.clock.now()-began, err)
		}
		l.dress(p)
		le, err = l.ask(ctx, p, left)
		attempts++
		switch {
		case err == nil && ctx.Err() != nil: // ctx wins
			le.discard(ctx)
			p = nil
			return nil, attempts, l.unavailable(ctx, key, 0, nil)
		case err == nil, errors.Is(err, ErrClosed):
			return le, attempts, err
		case errors.Is(err, ErrBusy):
			return nil, attempts, busyFacts(key, err)
		case definite(err):
			return nil, attempts, named("acquire", key, err)
		case errors.Is(err, errLate):
			p = newPending(key, false)
		}
		left = tryBound - (l.core.clock.now() - began)
		l.core.pause(ctx, min(left, retryAfter(attempts-1)))
	}
}

// retryAfter is how long to wait after the n-th attempt in a row (0 is the first) without an answer, while somebody waits for one.
func retryAfter(n int) time.Duration {
	return backoff.Jitter(backoff.Exponential(n, 5*time.Millisecond, 250*time.Millisecond))
}

// pause waits for d, ctx or Shutdown.
func (c *core) pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	case <-c.closing:
	}
}

// wait is pause for what goes on after Shutdown was called; false when ctx ends, or Shutdown has lost patience.
func (c *core) wait(ctx context.Context, d time.Duration) bool {
	call := c.bounded(ctx, d)
	defer call.Stop()
	<-call.Done()
	return ctx.Err() == nil && c.life.Err() == nil
}

// unavailable is the error of an acquire whose last attempts went unanswered, the last with err, which may be nil.
func (l *Locker) unavailable(ctx context.Context, key string, silent time.Duration, err error) error {
	text := "picket: acquire " + quote(key)
	if err == nil && ctx.Err() != nil {
		return ended(ctx, text)
	}
	missing := "answer"
	if err != nil && !outOfTime(err) {
		missing = "grant"
	}
	return silence(ctx, text+": store is unavailable: no "+missing+" for "+silent.Round(time.Millisecond).String(), ErrUnavailable, err)
}
