package picket_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/picket-go/picket"
)

// client is one goroutine of a process. It takes keys in every way there is, and gives them back, or does not.
type client struct {
	w    *world
	at   *seat
	name string
	d    *dice
}

var errWork = errors.New("model: the work failed")

func (c *client) run() {
	for !c.w.closing() {
		c.turn()
		time.Sleep(c.d.between(0, 300*time.Millisecond))
	}
}

// kind draws a kind of lock. selfEnding says that a lease of it ends although nobody releases it.
func (c *client) kind() (opts []picket.Option, selfEnding bool) {
	ttls := []time.Duration{300 * time.Millisecond, 500 * time.Millisecond, time.Second, time.Second, 2 * time.Second, 5 * time.Second}
	if aimed("late") {
		ttls = ttls[:2]
	}
	opts = []picket.Option{picket.WithTTL(ttls[c.d.below(len(ttls))]), picket.WithLabel(c.name)}
	if c.d.one(6) {
		opts = append(opts, picket.WithMinHold(c.d.between(time.Millisecond, 1500*time.Millisecond)))
	}
	if c.d.one(8) || aimed("delays") {
		opts = append(opts, picket.WithLockDelay(c.d.between(time.Millisecond, 1500*time.Millisecond)))
	}
	if c.d.one(6) {
		opts = append(opts, picket.WithMaxHold(c.d.between(300*time.Millisecond, 3*time.Second)))
		selfEnding = true
	}
	if c.d.one(5) {
		opts = append(opts, picket.WithoutRenewal())
		selfEnding = true
	}
	return opts, selfEnding
}

// patience draws a ctx that ends by deadline or is cancelled, and says when at the latest.
func (c *client) patience() (context.Context, context.CancelFunc, time.Duration) {
	d := c.d.between(time.Millisecond, 2500*time.Millisecond)
	if c.d.one(8) { // for long enough that waiters lapse and die
		d *= 8
	}
	if c.d.one(2) {
		ctx, cancel := context.WithTimeout(c.w.t.Context(), d)
		return ctx, cancel, d
	}
	ctx, cancel := context.WithCancel(c.w.t.Context())
	forget := c.at.keep(cancel)
	stop := time.AfterFunc(d, cancel)
	return ctx, func() { stop.Stop(); forget(); cancel() }, d
}

// Bounds of the calls: what they promise, and one attempt of a grant that is undone on the way.
const (
	attempt   = time.Second
	tryLimit  = 3*time.Second + attempt
	freeLimit = 3*time.Second + 2*attempt
)

func (c *client) turn() {
	opts, selfEnding := c.kind()
	p, key := c.at.process(), c.w.keys[c.d.below(len(c.w.keys))]
	locker := p.locker.With(opts...)
	ctx, cancel, left := c.patience()
	defer cancel()
	c.w.log("%s wants %q for %s", c.name, key, left)
	began := c.at.mark()
	switch c.d.below(5) {
	case 0:
		l, err := locker.TryAcquire(ctx, key)
		c.took("TryAcquire", began, min(left+attempt, tryLimit))
		c.use(l, err, selfEnding)
	case 1:
		c.under(ctx, locker.Do, key, began, left, c.w.ledger.asks(p, key))
	case 2:
		c.under(ctx, locker.TryDo, key, began, min(left, 3*time.Second), func() {})
	case 3:
		limit := c.d.between(time.Millisecond, 2*time.Second)
		done := c.w.ledger.asks(p, key)
		l, err := locker.With(picket.WithMaxWait(limit)).Acquire(ctx, key)
		done()
		c.took("Acquire with MaxWait", began, min(left, limit)+attempt)
		c.use(l, err, selfEnding)
	default:
		done := c.w.ledger.asks(p, key)
		l, err := locker.Acquire(ctx, key)
		done()
		c.took("Acquire", began, left+attempt)
		c.use(l, err, selfEnding)
	}
}

// took wants what has begun to have ended within limit.
func (c *client) took(what string, began mark, limit time.Duration) {
	if d := c.at.since(began); d > limit+time.Millisecond {
		c.w.violation(stuck, "%s: %s took %s, more than %s", c.name, what, d, limit)
	}
}

// excused wants an acquire to have failed for one of the reasons that it may have.
func (c *client) excused(err error) {
	c.w.log("%s has not got it: %v", c.name, err)
	for _, why := range []error{picket.ErrBusy, picket.ErrUnavailable, picket.ErrClosed, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, why) {
			return
		}
	}
	c.w.violation(refusal, "%s: an acquire says %v", c.name, err)
}

func (c *client) use(l *picket.Lease, err error, selfEnding bool) {
	if err != nil {
		c.excused(err)
		return
	}
	h := c.w.ledger.tells(c.name, l)
	c.hold(l)
	if selfEnding && c.d.one(3) {
		c.w.log("%s drops %s", c.name, c.w.name(h.id))
		return
	}
	c.release(h)
}

// doing is Do or TryDo.
type doing func(ctx context.Context, key string, fn func(context.Context, *picket.Lease) error) error

// under takes the key by do, and calls waited then; the work goes on for as long as it likes.
func (c *client) under(ctx context.Context, do doing, key string, began mark, left time.Duration, waited func()) {
	defer waited()
	var out leave
	outer, ran, good := ctx, false, false
	fails := c.d.one(6)
	err := do(ctx, key, func(ctx context.Context, l *picket.Lease) error {
		waited()
		c.took("the acquire of Do", began, left+attempt)
		ran = true
		h := c.w.ledger.tells(c.name, l)
		c.hold(l)
		if good = l.Check() == nil; good && ctx.Err() != nil && outer.Err() == nil {
			c.w.violation(badContext, "%s: the work's context has ended (%v), the lease is good", c.name, context.Cause(ctx))
		}
		out = c.w.ledger.leaves(h)
		began = c.at.mark()
		if fails {
			return errWork
		}
		return nil
	})
	if !ran {
		c.excused(err)
		return
	}
	c.took("the release of Do", began, freeLimit)
	switch {
	case fails:
		if !errors.Is(err, errWork) {
			c.w.violation(refusal, "%s: the work failed and Do says %v", c.name, err)
		}
	case !out.good:
		if err == nil && !errors.Is(out.lease.Check(), picket.ErrClosed) {
			c.w.violation(lateGrant, "%s: Do says nil of work under a lease that was over", c.name)
		}
	default:
		c.w.ledger.left(out, err)
	}
}

// hold works for a while, and asks for more or less time meanwhile.
func (c *client) hold(l *picket.Lease) {
	until := time.Now().Add(c.d.between(0, 2500*time.Millisecond))
	for time.Now().Before(until) && l.Check() == nil && !c.w.closing() {
		time.Sleep(c.d.between(0, 400*time.Millisecond))
		ctx, cancel, left := c.patience()
		began := c.at.mark()
		switch c.d.below(6) {
		case 0:
			ttl := []time.Duration{0, 300 * time.Millisecond, 800 * time.Millisecond, 4 * time.Second, 8 * time.Second}[c.d.below(5)]
			err := l.Renew(ctx, ttl)
			c.w.log("%s renewed %s to %s: %v", c.name, c.w.name(l.Holder().ID), ttl, err)
			c.took("Renew", began, min(left, tryLimit)+attempt)
			c.asked(l, "Renew", err)
		case 1:
			rest, err := l.Confirm(ctx)
			c.took("Confirm", began, min(left, tryLimit)+attempt)
			if err == nil && rest <= 0 {
				c.w.violation(unfounded, "%s: Confirm says %s", c.name, rest)
			}
			c.asked(l, "Confirm", err)
		}
		cancel()
	}
}

// asked wants a call on a lease to have failed for one of the reasons that it may have.
func (c *client) asked(l *picket.Lease, what string, err error) {
	switch {
	case err == nil, errors.Is(err, picket.ErrUnavailable), errors.Is(err, picket.ErrClosed):
	case errors.Is(err, picket.ErrLost) && errors.Is(l.Check(), picket.ErrLost):
	default:
		c.w.violation(refusal, "%s: %s says %v, Check %v", c.name, what, err, l.Check())
	}
}

func (c *client) release(h *told) {
	out := c.w.ledger.leaves(h)
	ctx, cancel := c.w.t.Context(), context.CancelFunc(func() {})
	switch c.d.below(4) {
	case 0:
		ctx = context.WithoutCancel(ctx)
	case 1:
		ctx, cancel = context.WithCancel(ctx)
		cancel()
	case 2:
		ctx, cancel = context.WithTimeout(ctx, c.d.between(time.Millisecond, time.Second))
	}
	defer cancel()
	began := c.at.mark()
	err := h.lease.Release(ctx)
	c.took("Release", began, freeLimit)
	c.w.ledger.left(out, err)
	if errors.Is(err, picket.ErrUncertain) || c.d.one(8) { // twice is safe
		began = c.at.mark()
		out.good = out.good && err != nil
		err = h.lease.Release(c.w.t.Context())
		c.took("the second Release", began, freeLimit)
		c.w.ledger.left(out, err)
	}
}

// seat is where a process's Locker is: it is shut down and replaced now and then.
type seat struct {
	w    *world
	no   int
	d    *dice
	life int
	now  *process      // guarded by the ledger's mutex
	slow time.Duration // it begins to listen

	mu      sync.Mutex
	cancels map[int]context.CancelFunc // of clients that may give up at any moment
	kept    int

	stood atomic.Int64 // how long calls of this process have stood still
}

// keep lets giveUp call cancel, until forget.
func (s *seat) keep(cancel context.CancelFunc) (forget func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cancels == nil {
		s.cancels = map[int]context.CancelFunc{}
	}
	s.kept++
	n := s.kept
	s.cancels[n] = cancel
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.cancels, n)
	}
}

// giveUp ends the patience of a client of this process.
func (s *seat) giveUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, cancel := range s.cancels {
		cancel()
		return
	}
}

// mark is a moment in the life of a process that may stand still.
type mark struct {
	at    time.Time
	stood int64
}

func (s *seat) mark() mark { return mark{time.Now(), s.stood.Load()} }

// since is the time since m without what stood still meanwhile: a promise of time is one of a process that runs.
func (s *seat) since(m mark) time.Duration {
	return time.Since(m.at) - time.Duration(s.stood.Load()-m.stood)
}

// pause stands still. It counts twice, at its begin and its end, so that what begins or ends within it is excused.
func (s *seat) pause(d time.Duration) {
	s.stood.Add(int64(d))
	time.Sleep(d)
	s.stood.Add(int64(d))
}

func (s *seat) process() *process {
	s.w.ledger.mu.Lock()
	defer s.w.ledger.mu.Unlock()
	return s.now
}

// start puts a new Locker in place and returns the old one.
func (s *seat) start() (old *process) {
	s.life++
	p := &process{name: fmt.Sprintf("p%d.%d", s.no, s.life), hungUp: make(chan struct{})}
	p.store = s.w.host.connect(p)
	x := &wire{w: s.w, s: s, p: p, d: s.d}
	p.wire = x
	var store picket.Store
	switch {
	case s.w.wakes && s.w.transfers:
		store = fullWire{watchWire{x}, transferWire{x}}
	case s.w.wakes:
		store = watchWire{x}
	case s.w.transfers:
		store = transferWire{x}
	default:
		store = x
	}
	p.locker = picket.New(store, picket.WithObserver(s.w.states.observer()))
	s.w.ledger.mu.Lock()
	defer s.w.ledger.mu.Unlock()
	old, s.now = s.now, p
	return old
}

// lifetime draws how long the Locker lives.
func (s *seat) lifetime() time.Duration {
	if aimed("kills") {
		return s.d.between(time.Second, 6*time.Second)
	}
	return s.d.between(4*time.Second, 30*time.Second)
}

// restarts shuts the Locker down at random moments, or kills the process, and starts another.
func (s *seat) restarts() {
	for {
		select {
		case <-s.w.over:
			return
		case <-time.After(s.lifetime()):
		}
		if old := s.start(); s.d.one(2) || aimed("kills") {
			s.kill(old, s.d.one(2))
		} else {
			s.stop(old, s.d.between(0, 3*time.Second))
		}
	}
}

// stop shuts p down. A patience that ends leaves what is held or under way to its TTL.
func (s *seat) stop(p *process, patience time.Duration) {
	ctx, cancel := context.WithTimeout(s.w.t.Context(), patience)
	defer cancel()
	s.w.log("%s shuts down", p.name)
	began := s.mark()
	err := p.locker.Shutdown(ctx)
	if ctx.Err() != nil {
		p.aborted.Store(true)
	}
	s.w.log("%s is shut down: %v", p.name, err)
	limit := patience + 10*time.Millisecond
	if s.w.host.remote() {
		limit += attempt // what only a deadline ends, redisstore sends on its caller's goroutine, which hears of nothing else
	}
	if d := s.since(began); d > limit {
		s.w.violation(stuck, "the Shutdown of %s took %s, its ctx had %s", p.name, d, patience)
	}
}
