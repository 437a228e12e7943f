package picket

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/picket-go/picket/internal/backoff"
	"github.com/picket-go/picket/internal/lease"
)

const (
	pollNear = 250 * time.Millisecond // the first two in line
	pollFar  = recheck                // the others; also the heartbeat of a place
	firstAsk = 20 * time.Millisecond  // a MaxWait that is shorter lets the first request take this long
)

// waiter is one Acquire. Its fields are guarded by the core's mutex, except what never changes.
type waiter struct {
	locker *Locker
	key    string
	began  lease.Instant
	until  lease.Instant // MaxWait; Forever without

	line  *line
	lease *Lease        // set when it was granted, by whoever asked
	due   lease.Instant // when to ask next, if first in line
	asked int           // requests made for it
	polls int           // busy answers
	fails int           // requests in a row without an answer
	told  chan struct{} // made when it first sleeps
}

// wake makes w look around. Never blocks.
func (w *waiter) wake() {
	if w.told != nil {
		select {
		case w.told <- struct{}{}:
		default:
		}
	}
}

// waitForOthers refuses to wait for the call chain's own lease, then waits.
func (l *Locker) waitForOthers(ctx context.Context, key string) (*Lease, int, error) {
	if held := l.core.heldBy(ctx, key); held != nil {
		return nil, 0, invalid("key %q is held by this call chain (token %d): it would wait for itself; use picket.FromContext", key, held.Token())
	}
	return l.wait(ctx, key)
}

// wait queues locally and asks the store while first in line, until the key is granted.
func (l *Locker) wait(ctx context.Context, key string) (*Lease, int, error) {
	c := l.core
	w := &waiter{locker: l, key: key, began: c.clock.now(), until: lease.Forever}
	if l.set.maxWait > 0 {
		w.until = lease.Until(w.began, l.set.maxWait)
	}
	c.join(w)
	parted := false
	defer func() {
		if !parted { // the store panicked, and the caller may live on
			c.part(ctx, w)
		}
	}()
	le, err := w.run(ctx)
	if le == nil {
		c.part(ctx, w)
		le = w.taken()
	}
	parted = true
	switch {
	case le == nil:
		return nil, w.asked, err
	case ctx.Err() != nil: // ctx wins
		le.discard(ctx)
		return nil, w.asked, ended(ctx, "picket: acquire "+quote(key))
	case err != nil: // granted as it gave up
		le.discard(ctx)
		return nil, w.asked, err
	}
	return le, w.asked, nil
}

// taken returns the lease that came in the last moment.
func (w *waiter) taken() *Lease {
	w.locker.core.mu.Lock()
	defer w.locker.core.mu.Unlock()
	return w.lease
}

// run does what step says until the lease is there or an error is.
func (w *waiter) run(ctx context.Context) (*Lease, error) {
	var timer *time.Timer
	for {
		s := w.step(ctx)
		switch {
		case s.lease != nil || s.err != nil:
			return s.lease, s.err
		case s.ask != nil:
			if err := w.ask(ctx, s.ask, s.limit); err != nil {
				return nil, err
			}
			continue
		case s.listen != nil:
			w.listen(ctx, s.listen, s.limit)
			continue
		}
		if timer == nil {
			timer = time.NewTimer(s.limit)
			defer timer.Stop()
		} else {
			timer.Reset(s.limit)
		}
		w.sleep(ctx, timer, s.wake)
	}
}

// step is what a waiter does next: it has a lease or an error, or asks, or listens, or sleeps until told, woken, or limit is over.
type step struct {
	lease  *Lease
	err    error
	ask    *pending
	listen *pending
	wake   <-chan struct{}
	limit  time.Duration
}

func (w *waiter) step(ctx context.Context) step {
	c := w.locker.core
	now := c.clock.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	q := w.line
	switch {
	case w.lease != nil:
		return step{lease: w.lease}
	case c.closed:
		return step{err: ErrClosed}
	case ctx.Err() != nil, now >= w.until && w.mayGiveUp(), q.failure != nil && w.silence(now) >= w.locker.set.term():
		return step{err: w.givesUp(ctx, now)}
	}
	next := w.until
	if now >= next { // first in line, it has still to ask: until the turn is over, or the swap for it
		next = lease.Forever
	}
	if q.front() == w && !q.sending {
		q.stand()
		switch {
		case q.turn.open(now):
			next = min(next, q.turn.ends)
		case now < w.until && q.mustListen(c, now):
			q.sending = true
			w.locker.dress(q.place)
			return step{listen: q.place, limit: w.until - now}
		case now >= w.due:
			w.asked++
			return step{ask: q.send(w, now), limit: w.patience(now)}
		default:
			next = min(next, w.due)
		}
	}
	if w.told == nil {
		w.told = make(chan struct{}, 1)
	}
	s := step{limit: next - now}
	if q.front() == w { // one hint, for the one who asks
		s.wake = q.watch.wake
	}
	return s
}

// patience is how long a request may take because of MaxWait.
func (w *waiter) patience(now lease.Instant) time.Duration {
	if w.asked == 1 {
		return max(w.until-now, firstAsk)
	}
	return w.until - now
}

// mayGiveUp reports whether MaxWait may end the waiting: whoever is first in line has asked once, however short it is.
func (w *waiter) mayGiveUp() bool { return w.asked > 0 || w.line.sending || w.line.front() != w }

// mustListen reports whether the place has to listen for wake-ups before anything else: it stands in the store's queue, or will.
func (q *line) mustListen(c *core, now lease.Instant) bool {
	return c.waker != nil && q.watch.of != q.place && now >= q.deaf && (q.place.queued || q.heeded)
}

// ask sends the place's claim once. It returns an error that ends the waiting.
func (w *waiter) ask(ctx context.Context, p *pending, limit time.Duration) error {
	var le *Lease
	err := errNoAnswer
	defer func() { // also when the store panics
		if errors.Is(err, errNoAnswer) {
			p.doubt = true
		}
		w.locker.core.sent(ctx, w, le, err, beginTurn)
	}()
	le, err = w.locker.ask(ctx, p, limit)
	switch {
	case err != nil && definite(err):
		return named("acquire", w.key, err)
	case errors.Is(err, ErrClosed): // the Locker, or the store under it
		return err
	}
	return nil
}

// listen opens the watch of the place. What it does not hear, polls find (rueidis#653 is what happens without them).
func (w *waiter) listen(ctx context.Context, p *pending, limit time.Duration) {
	c := w.locker.core
	got, err := watch{of: p}, errNoAnswer
	defer func() { w.listened(ctx, got, err) }() // also when the store panics
	call := c.bounded(ctx, min(limit, w.locker.set.attemptBound()))
	defer call.Stop()
	got.wake, got.stop, err = c.waker.Watch(call, p.claim)
}

// listened takes what became of listening for a place.
func (w *waiter) listened(ctx context.Context, got watch, err error) {
	c := w.locker.core
	c.mu.Lock()
	q := w.line
	q.sending, q.heeded = false, true
	switch now := c.clock.now(); {
	case err == nil:
		q.watch = got
	case ctx.Err() != nil || now >= w.until: // this waiter has left: that says nothing of the store, and the next one listens
	default:
		q.deaf = now + pollFar
	}
	if got.of.queued { // the first hand-off may have passed unheard
		w.due = 0
	}
	if f := q.front(); f != nil && f != w {
		f.due = 0
		f.wake()
	}
	place, unwatch := c.sweep(q)
	c.mu.Unlock()
	unwatch()
	c.abandon(ctx, place)
}

// sleep waits for whatever comes first. A closed wake channel is the end of the listening.
func (w *waiter) sleep(ctx context.Context, timer *time.Timer, wake <-chan struct{}) {
	c := w.locker.core
	select {
	case _, ok := <-wake:
		stop := func() {}
		c.mu.Lock()
		w.due, w.line.nudged = 0, true // the answer to a request that is under way may be older than the hint
		if !ok && w.line.watch.wake == wake {
			stop = w.line.unwatch()
			w.line.deaf = c.clock.now() + pollNear
		}
		c.mu.Unlock()
		stop()
	case <-w.told:
	case <-timer.C:
	case <-ctx.Done():
	case <-c.closing:
	}
}

// pollDelay is when a waiter asks again although nobody woke it: by its place in line, and when the holder's record ends.
func (w *waiter) pollDelay(b *BusyError) time.Duration {
	var d time.Duration
	switch {
	case b.Waiters < 0: // no queue: whoever asks first has it
		d = backoff.Exponential(w.polls-1, 5*time.Millisecond, pollNear)
	case b.Waiters < 2:
		d = pollNear
	default:
		d = pollFar
	}
	d = backoff.Jitter(d)
	if b.Remaining > 0 && b.Remaining < d {
		d = b.Remaining + time.Millisecond
	}
	return d
}

// silence is how long the store has not answered this waiter's line.
func (w *waiter) silence(now lease.Instant) time.Duration { return now - max(w.began, w.line.silent) }

// givesUp is the error of a waiter whose time is over: whom it waited for, or that the store is silent. The core's mutex is held.
func (w *waiter) givesUp(ctx context.Context, now lease.Instant) error {
	q := w.line
	if q.failure != nil && (q.busy == nil || w.silence(now) >= min(w.locker.set.term(), tryBound)) {
		return w.locker.unavailable(ctx, w.key, w.silence(now), q.failure)
	}
	ahead := max(0, slices.Index(q.waiters, w))
	b := BusyError{Key: w.key, Waiters: ahead}
	if q.busy != nil {
		b = *q.busy
		if b.Waiters >= 0 {
			b.Waiters += ahead
		}
		if b.Remaining != NoExpiry {
			b.Remaining = max(0, b.Remaining-(now-q.heard))
		}
	}
	b.cause = ctxErrors(ctx)
	return &b
}
