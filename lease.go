package picket

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/picket-go/picket/fence"
	"github.com/picket-go/picket/internal/backoff"
	"github.com/picket-go/picket/internal/bound"
	"github.com/picket-go/picket/internal/lease"
)

// Lease is a granted claim. Its methods are safe for concurrent use; it is not tied to a goroutine.
type Lease struct {
	core    *core
	set     *settings
	token   atomic.Int64
	granted lease.Instant
	endless bool // the store's lease does not end with time

	mu       sync.Mutex
	claim    *Claim // of the place, which is nobody else's any more; only TTL changes, and MinHold when it is discarded
	terms    lease.Terms
	window   lease.Window
	state    State
	loss     *LostError // set from StateEnding on
	denied   bool       // the store has said that the record is not ours
	cause    error      // why the contexts ended; nil while they live
	done     chan struct{}
	children map[*child]struct{}
	doubt    bool // of the claim, sticky

	renewAt  lease.Instant
	renewing bool
	epoch    int // of the TTL: an answer to a renewal with an older one counts for nothing
	failures int // renewals in a row without an answer

	turn    turn
	release release
	events  []func() // what observers are to be told, in order
	telling bool
	untold  bool // nobody was told of the lease, so no observer is told of its end

	due   lease.Instant // the renewer's, under its mutex, as the next two
	slack time.Duration // how much earlier it may be done to go with others
	slot  int           // -1 when it does not watch the lease
}

var _ fence.Lease = (*Lease)(nil)

func newLease(l *Locker, p *pending, g Grant, t0 lease.Instant) *Lease {
	le := &Lease{core: l.core, set: &l.set, granted: t0, claim: &p.claim, terms: l.set.terms(t0), doubt: p.doubt, slot: -1}
	le.token.Store(g.Token)
	ttl := p.claim.TTL
	switch {
	case g.TTL == NoExpiry && !le.set.fixed:
		ttl, le.endless = NoExpiry, true
	case g.TTL > 0 && g.TTL != NoExpiry:
		ttl = g.TTL
	}
	if le.set.fixed {
		ttl = min(ttl, p.claim.TTL)
	}
	le.window = le.terms.Window(t0, ttl)
	le.renewAt = le.nextRenewal(t0)
	return le
}

// Key returns what is locked.
func (l *Lease) Key() string { return l.claim.Key }

// Token returns the fencing token: larger than those of all earlier grants of the key. Only Reissue changes it.
func (l *Lease) Token() int64 { return l.token.Load() }

// Holder returns what the store's record says of us; Since is by our clock, the record has the store's.
func (l *Lease) Holder() Holder { return l.claim.Holder }

// Check compares clocks, does no I/O, and returns nil while work is safe, else the *LostError or ErrReleased. Call it right before a risky step.
// After Shutdown it is ErrClosed.
func (l *Lease) Check() error {
	now := l.core.clock.exact()
	l.mu.Lock()
	after := l.advance(now)
	err := l.cause
	if l.loss != nil {
		err = l.loss
	}
	l.mu.Unlock()
	after.run()
	return err
}

// Remaining returns the time until Context ends if no further renewal succeeds; 0 when it is over; NoExpiry when no clock ends it.
func (l *Lease) Remaining() time.Duration {
	now := l.core.clock.exact()
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.cause != nil:
		return 0
	case l.window.End == lease.Forever:
		return NoExpiry
	}
	return max(0, l.window.End-now)
}

// headroom is the time until the deadline of a lease that needs renewals.
func (l *Lease) headroom(now lease.Instant) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.window.Deadline == lease.Forever || l.release.begun {
		return NoExpiry
	}
	return max(0, l.window.Deadline-now)
}

// look lets the clock do what is due, and tells of it.
func (l *Lease) look(now lease.Instant) {
	l.mu.Lock()
	after := l.advance(now)
	l.mu.Unlock()
	after.run()
}

// lostOrReleased is nil while the store may keep the key for us.
func (l *Lease) lostOrReleased() error {
	if err := l.Check(); err != nil && !errors.Is(err, ErrClosed) {
		return err
	}
	return nil
}

// discard releases a lease that nobody was told of, behind the caller's back: nobody has worked under it, so it leaves no MinHold.
func (l *Lease) discard(ctx context.Context) {
	l.mu.Lock()
	l.claim.MinHold, l.untold, l.release.owned = 0, true, true
	claim := *l.claim
	l.mu.Unlock()
	claim.Doubt = true // if the release goes unanswered
	began := l.core.spawn(func() {
		if err := l.Release(context.WithoutCancel(ctx)); errors.Is(err, ErrUncertain) {
			l.core.undo(ctx, claim)
		}
	})
	if !began {
		l.core.forget(l)
	}
}

// close ends the contexts for Shutdown; the lease stays held, and renewed, until it is released.
func (l *Lease) close() {
	l.mu.Lock()
	cancel := l.finish(ErrClosed)
	l.mu.Unlock()
	cancel()
}

// later is what must happen when mu is free: callbacks of other people, calls to the store.
type later []func()

// run does all of it, also when a callback panics.
func (f later) run() {
	if len(f) > 0 {
		defer f[1:].run()
		f[0]()
	}
}

// live reports whether the lease can still end by itself: it is neither over nor given back. mu is held, here and below.
func (l *Lease) live() bool { return l.state < StateLost && !l.release.begun }

// advance lets the clock do what is due: contexts end, the lease is lost.
func (l *Lease) advance(now lease.Instant) (after later) {
	if !l.live() {
		return nil
	}
	if l.state < StateEnding && now >= l.window.End {
		l.loss = l.lostFor(l.reason())
		after = append(after, l.finish(l.loss), l.change(StateEnding, l.loss))
	}
	if l.state == StateEnding && now >= l.window.Deadline {
		after = append(after, l.change(StateLost, l.loss), l.over())
	}
	return after
}

// beside is f for who works for all leases: if observers are to be told, who may take their time, it runs beside and holds up nobody.
func (l *Lease) beside(f later) later {
	if len(l.events) == 0 {
		return f
	}
	return later{func() {
		if !l.core.spawn(f.run) {
			f.run()
		}
	}}
}

// reason is why the clock ends the lease.
func (l *Lease) reason() Reason {
	switch {
	case l.terms.Limit != lease.Forever && l.window.Deadline >= l.terms.Limit-l.terms.Margins.Drift(l.terms.TTL):
		return ReasonMaxHold
	case l.failures > 0, l.renewing:
		return ReasonUnreachable
	}
	return ReasonExpired
}

func (l *Lease) lostFor(r Reason) *LostError {
	return &LostError{Key: l.claim.Key, Token: l.Token(), Reason: r, At: time.Now()}
}

// lose is the store's word that the record is not ours.
func (l *Lease) lose(err error, now lease.Instant) later {
	if !l.live() {
		return nil // a release has its own answer
	}
	l.denied = true
	if l.loss == nil {
		l.loss = l.lostFor(l.reasonOf(err, now))
	}
	return later{l.finish(l.loss), l.change(StateLost, l.loss), l.over()}
}

// reasonOf is the store's reason, or, from a store that cannot tell: deleted before our deadline, expired after it.
func (l *Lease) reasonOf(err error, now lease.Instant) Reason {
	if lost, ok := errors.AsType[*LostError](err); ok && lost.Reason != "" {
		return lost.Reason
	}
	if now < l.window.Deadline {
		return ReasonDeleted
	}
	return ReasonExpired
}

// over ends what the core does for a lost lease. A claim in doubt is undone: an old request of it may still arrive (DESIGN 3.1).
func (l *Lease) over() func() {
	claim := *l.claim
	claim.Doubt = l.doubt
	return func() {
		l.core.renewer.remove(l)
		if claim.Doubt {
			l.core.undo(bound.None(), claim)
		}
		l.core.forget(l)
	}
}

// change records a new state; the returned function tells the observers.
func (l *Lease) change(to State, err error) func() {
	from := l.state
	l.state = to
	if !l.set.watchLeases() {
		return func() {}
	}
	l.observe(func() { l.set.leaseChange(LeaseEvent{Lease: l, From: from, To: to, Err: err}) })
	return l.tell
}

// observe queues what observers are to be told by tell. mu is held.
func (l *Lease) observe(event func()) {
	if !l.untold {
		l.events = append(l.events, event)
	}
}

// tell hands out the events in order, by one goroutine at a time.
func (l *Lease) tell() {
	for {
		l.mu.Lock()
		if l.telling || len(l.events) == 0 {
			l.mu.Unlock()
			return
		}
		event := l.events[0]
		l.events = l.events[1:]
		l.telling = true
		l.mu.Unlock()
		l.tellOf(event)
	}
}

func (l *Lease) tellOf(event func()) {
	defer func() { // also when the observer panics
		l.mu.Lock()
		defer l.mu.Unlock()
		l.telling = false
	}()
	event()
}

// nextRenewal is when to renew after a success whose request left at t0.
func (l *Lease) nextRenewal(t0 lease.Instant) lease.Instant {
	if l.set.fixed {
		return lease.Forever
	}
	return l.terms.RenewAt(t0, l.window)
}

// renewed takes the outcome of n, which left at t0. It reports whether the lease still needed a renewal.
func (l *Lease) renewed(n *renewal, t0 lease.Instant, err error) bool {
	now := l.core.clock.now() // the renewer has looked, and Check will
	l.mu.Lock()
	after := l.advance(now) // a renewal that is under way at the end has had no answer
	l.renewing = false
	needed := l.live()
	switch {
	case l.state >= StateEnding || l.release.begun: // a late success revives nothing
	case errors.Is(err, ErrLost):
		after = append(after, l.lose(err, now)...)
	case err == nil:
		if n.epoch == l.epoch {
			after = append(after, l.extend(t0, n.claim.TTL, false))
		}
	default:
		l.failures++
		l.renewAt = now + backoff.Jitter(l.terms.RetryAfter(l.failures))
		if l.state == StateHeld {
			after = append(after, l.change(StateJeopardy, err))
		}
	}
	after = l.beside(after)
	l.mu.Unlock()
	l.core.renewer.fix(l)
	after.run()
	return needed
}

// extend moves the deadline after a success; only a renewal to a shorter TTL may move it back.
func (l *Lease) extend(t0 lease.Instant, asked time.Duration, back bool) func() {
	if l.endless {
		asked = NoExpiry
	}
	if w := l.terms.Window(t0, asked); back || w.Deadline > l.window.Deadline {
		l.window = w
	}
	l.failures = 0
	l.renewAt = l.nextRenewal(t0)
	if l.state == StateJeopardy {
		return l.change(StateHeld, nil)
	}
	return func() {}
}
