package picket

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/picket-go/picket/internal/bound"
	"github.com/picket-go/picket/internal/lease"
)

const (
	turnWaiters = 16
	turnTime    = 100 * time.Millisecond
)

// line is where the waiters of one key in this process queue. They share one place in the store's queue: only the first of them asks. Guarded by the core's mutex.
type line struct {
	key     string
	waiters []*waiter
	place   *pending      // nil until somebody asks, and again when it was granted or burnt
	watch   watch         // of the place
	deaf    lease.Instant // listening failed: not before then again
	heeded  bool          // this line has listened before: a new place listens before it first asks
	sending bool          // a request for the place is under way
	nudged  bool          // since the last request left, the key was released in this process or a wake-up came
	turn    turn
	busy    *BusyError    // the store's last no
	failure error         // why the last request had no answer; nil after one that had
	heard   lease.Instant // when the store last answered
	left    lease.Instant // when the last request left
	silent  lease.Instant // when the first of the requests without answer left; only with failure
}

// turn is how long a process may hand the key on among its own waiters before it goes to the back of the store's queue (DESIGN 3.6).
type turn struct {
	ends lease.Instant
	left int
}

// watch is the listening for wake-ups of one place.
type watch struct {
	of   *pending
	wake <-chan struct{}
	stop func()
}

// newTurn serves the waiters that are there now.
func (q *line) newTurn(now lease.Instant) turn {
	return turn{ends: now + turnTime, left: min(len(q.waiters), turnWaiters)}
}

// beginTurn stands for a turn of those who are there when the grant comes.
var beginTurn = turn{left: -1}

func (t turn) open(now lease.Instant) bool { return t.left > 0 && now < t.ends }

func (q *line) front() *waiter {
	if len(q.waiters) == 0 {
		return nil
	}
	return q.waiters[0]
}

// join puts w at the end of its key's line.
func (c *core) join(w *waiter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.lines[w.key]
	if q == nil {
		q = &line{key: w.key, heard: w.began}
		c.lines[w.key] = q
	}
	w.line = q
	q.waiters = append(q.waiters, w)
}

// part takes w out of its line and gives up what nobody is left to use.
func (c *core) part(ctx context.Context, w *waiter) {
	c.mu.Lock()
	q := w.line
	q.drop(w)
	place, stop := c.sweep(q)
	c.mu.Unlock()
	stop()
	c.abandon(ctx, place)
}

// drop removes w, wherever it stands, and wakes who is first then.
func (q *line) drop(w *waiter) {
	i := slices.Index(q.waiters, w)
	if i < 0 {
		return
	}
	q.waiters = slices.Delete(q.waiters, i, i+1)
	if i == 0 && len(q.waiters) > 0 {
		q.waiters[0].wake()
	}
}

// sweep ends an empty line that no request is under way for. It returns the place to abandon and the watch to stop.
func (c *core) sweep(q *line) (place *pending, stop func()) {
	if len(q.waiters) > 0 || q.sending {
		return nil, func() {}
	}
	if c.lines[q.key] == q {
		delete(c.lines, q.key)
	}
	place, q.place = q.place, nil
	return place, q.unwatch()
}

// unwatch forgets the watch; the returned function stops it.
func (q *line) unwatch() (stop func()) {
	stop = q.watch.stop
	q.watch = watch{}
	if stop == nil {
		return func() {}
	}
	return stop
}

// send marks a request for the place, made for w, as under way; one place has one request at a time, so that no answer is missed and no late one can matter.
func (q *line) send(w *waiter, now lease.Instant) *pending {
	q.sending, q.nudged, q.left = true, false, now
	q.stand()
	w.locker.dress(q.place)
	return q.place
}

// stand makes the line's place if it has none.
func (q *line) stand() {
	if q.place == nil {
		q.place = newPending(q.key, true)
	}
}

// sent takes the outcome of a request for the place that was made for w; next is the turn that goes on if it was granted, beginTurn if one begins.
func (c *core) sent(ctx context.Context, w *waiter, le *Lease, err error, next turn) {
	now := c.clock.now()
	c.mu.Lock()
	q := w.line
	gone := !slices.Contains(q.waiters, w)
	stop := q.conclude(ctx, w, le, err, now)
	if le != nil {
		if next == beginTurn {
			next = q.newTurn(now)
		}
		q.turn, le.turn = next, next
	}
	w.wake()
	if f := q.front(); f != nil && f != w {
		f.wake()
	}
	place, unwatch := c.sweep(q)
	c.mu.Unlock()
	stop()
	unwatch()
	c.abandon(ctx, place)
	if gone && le != nil { // it left while others asked for it
		le.discard(ctx)
	}
}

// conclude is what the outcome of a request changes in the line. The returned function stops a watch that is no longer needed.
func (q *line) conclude(ctx context.Context, w *waiter, le *Lease, err error, now lease.Instant) (stop func()) {
	q.sending = false
	switch {
	case le != nil:
		q.place, q.failure, q.heard = nil, nil, now
		q.drop(w)
		w.lease = le
		return q.unwatch()
	case errors.Is(err, ErrClosed):
		q.place = nil
		return q.unwatch()
	case errors.Is(err, errLate): // burnt; a store that always is too late must not be asked without a pause
		q.place = nil
		q.left = now // it has answered
		q.fail(w, err, now)
		return q.unwatch()
	case errors.Is(err, ErrBusy):
		q.busy = busyFacts(q.key, err)
		q.failure, q.heard = nil, now
		w.fails = 0
		w.polls++
		w.due = now + w.pollDelay(q.busy)
	case definite(err):
		q.heard = now
	case errors.Is(err, errLeft), q.busy != nil && (ctx.Err() != nil || now >= w.until): // the asker left; that says nothing of the store
	default:
		q.fail(w, err, now)
	}
	if q.nudged {
		w.due = 0
	}
	return func() {}
}

// fail records a request without a usable answer, and wakes those who have heard nothing for a TTL.
func (q *line) fail(w *waiter, err error, now lease.Instant) {
	if q.failure == nil {
		q.silent = q.left
	}
	q.failure = err
	w.fails++
	w.due = now + retryAfter(w.fails-1)
	for _, x := range q.waiters {
		if x.silence(now) >= x.locker.set.term() {
			x.wake()
		}
	}
}

// busyFacts are those of err, which is ErrBusy; a store may have left them out.
func busyFacts(key string, err error) *BusyError {
	if b, ok := errors.AsType[*BusyError](err); ok && b.Key == key {
		return b
	}
	return &BusyError{Key: key, Waiters: -1}
}

// errLeft is a swap that the one who releases has left.
var errLeft = errors.New("picket: the one who releases has left")

// swap hands the key of l straight to the first local waiter, if there is one and the store can. It reports whether l is released, and how; if not, the plain release has
// to follow, and an error says that time has passed.
func (c *core) swap(ctx context.Context, l *Lease, from Claim, until lease.Instant) (done bool, err error) {
	if c.swapper == nil || from.MinHold > 0 {
		return false, nil
	}
	c.mu.Lock()
	q := c.lines[from.Key]
	if q == nil || q.sending || len(q.waiters) == 0 || c.closed {
		c.mu.Unlock()
		return false, nil
	}
	now := c.clock.now()
	w := q.front()
	p := q.send(w, now)
	next, to, unheard := beginTurn, p.claim, false
	if l.turn.open(now) {
		to.Queue = false
		next = turn{ends: l.turn.ends, left: l.turn.left - 1}
	} else {
		unheard = q.mustListen(c, now)
	}
	c.mu.Unlock()

	answered := false
	defer func() {
		if !answered { // the store panicked
			p.doubt = true
			c.sent(ctx, w, nil, errNoAnswer, next)
		}
	}()
	if unheard {
		c.overhear(q, p)
	}
	t0 := c.clock.now()
	call := c.until(ctx, min(until, t0+l.set.attemptBound()))
	defer call.Stop()
	grant, err := c.swapper.Transfer(call, from, to)
	answered = true
	if err == nil && grant.Waiters == 0 {
		next = beginTurn // nobody is made to wait by a new turn
	}
	if errors.Is(err, ErrLost) || definite(err) { // nothing was done for the waiter: it asks for itself
		c.sent(ctx, w, nil, &BusyError{Key: from.Key, Waiters: -1}, next)
		return errors.Is(err, ErrLost), err
	}
	nothing := unsent(err)
	le, err := w.locker.answer(ctx, p, t0, grant, err)
	done = err == nil || errors.Is(err, errLate) || errors.Is(err, ErrClosed) || errors.Is(err, ErrBusy)
	told := err
	if !done && ctx.Err() != nil {
		told = errLeft
	}
	c.sent(ctx, w, le, told, next)
	if done {
		return true, nil
	}
	if !nothing {
		l.markUnheard()
	}
	return false, err
}

// overhear makes the place listen before it stands in the store's queue, if that takes no request: else it asks once more when it listens, as a hint may have passed it.
func (c *core) overhear(q *line, p *pending) {
	ended := bound.New(bound.None(), 0)
	defer ended.Stop()
	wake, stop, err := c.waker.Watch(ended, p.claim)
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	q.watch = watch{of: p, wake: wake, stop: stop}
}

// nudge lets the first local waiter ask at once: the key was released here.
func (c *core) nudge(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if q := c.lines[key]; q != nil && len(q.waiters) > 0 {
		q.turn = turn{}
		q.nudged = true
		q.front().due = 0
		q.front().wake()
	}
}
