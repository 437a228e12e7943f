package picket_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/picket-go/picket"
)

// weather is how bad the network is.
type weather int32

const (
	calm weather = iota
	fair
	rough
	storm // most calls fail somehow
	dark  // nothing arrives
)

// fate is what becomes of one call.
type fate struct {
	unsent      bool          // refused before anything leaves the process
	lostRequest bool          // never arrives
	request     time.Duration // until it takes effect; the caller may have left by then
	twice       bool          // takes effect twice
	lostReply   bool          // takes effect, and the caller does not hear of it
	reply       time.Duration
	cut         time.Duration // the connection breaks after so long; 0 never
	pause       time.Duration // the caller stands still between the reply and its return, as in a garbage collection or under SIGSTOP
}

var (
	errCut    = errors.New("model: connection reset")
	errUnsent = unsentError{}
)

type unsentError struct{}

func (unsentError) Error() string { return "model: connection refused" }
func (unsentError) Unsent() bool  { return true }

// dice are a seeded source for several goroutines.
type dice struct {
	mu sync.Mutex
	*rand.Rand
}

func newDice(seed uint64, stream int) *dice {
	return &dice{Rand: rand.New(rand.NewPCG(seed, uint64(stream)))}
}

func (d *dice) one(in int) bool { return d.below(in) == 0 }

func (d *dice) below(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.IntN(n)
}

// between returns a duration that almost never equals another: two things at the same instant are a case of their own.
func (d *dice) between(low, high time.Duration) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return low + time.Duration(d.Int64N(int64(high-low)))
}

// lossy says in one of how many calls each fault happens.
var lossy = map[weather]struct{ lost, slow, cut int }{
	fair:  {60, 40, 80},
	rough: {12, 10, 20},
	storm: {4, 3, 5},
}

const latest = 4 * time.Second // a request that is late is at most so late

func (d *dice) fate(w weather) fate {
	f := fate{request: d.between(10*time.Microsecond, 2*time.Millisecond), reply: d.between(10*time.Microsecond, 2*time.Millisecond)}
	if w == calm {
		return f
	}
	if w == dark {
		f.lostRequest = true
		return f
	}
	odds := lossy[w]
	switch {
	case d.one(odds.lost):
		f.lostRequest = true
	case d.one(odds.lost):
		f.lostReply = true
	}
	if d.one(odds.slow) || aimed("late") && d.one(2) {
		f.request = d.between(20*time.Millisecond, latest)
	}
	if d.one(odds.slow) {
		f.reply = d.between(20*time.Millisecond, latest)
	}
	if d.one(odds.cut) {
		f.cut = d.between(time.Millisecond, 200*time.Millisecond)
	}
	if d.one(odds.cut) || aimed("late") && d.one(4) {
		f.pause = d.between(20*time.Millisecond, latest)
	}
	f.twice = d.one(12)
	f.unsent = d.one(3 * odds.cut)
	return f
}

// wire is what lies between one Locker and the server: the picket.Store that the Locker sees.
type wire struct {
	w *world
	s *seat
	p *process
	d *dice
}

var _ picket.Store = (*wire)(nil)

// The optional interfaces come and go: losing one may cost speed, never correctness.
type (
	watchWire    struct{ *wire }
	transferWire struct{ *wire }
	fullWire     struct {
		watchWire
		transfer transferWire
	}
)

var (
	_ picket.Waker      = watchWire{}
	_ picket.Transferer = transferWire{}
)

func (f fullWire) Transfer(ctx context.Context, from, to picket.Claim) (picket.Grant, error) {
	return f.transfer.Transfer(ctx, from, to)
}

// call carries one request and its reply. What the caller does not get to hear goes to unheard.
func call[V any](ctx context.Context, x *wire, what string, once bool, exec func(context.Context) V, unheard func(V)) (V, error) {
	var none V
	f := x.d.fate(x.w.weather())
	releasing := strings.HasPrefix(what, "release") && aimed("swaps") && x.w.weather() > calm
	f.lostRequest = f.lostRequest || x.p.dead.Load() || releasing && !x.d.one(4)
	switch {
	case ctx.Err() != nil:
		return none, ctx.Err()
	case f.unsent:
		return none, errUnsent
	case x.p.below && x.d.one(2): // what can go wrong goes wrong below the store
		x.w.flying.Add(1)
		defer x.w.flying.Add(-1)
		return exec(ctx), nil
	}
	reply, gone := make(chan V), make(chan struct{})
	defer close(gone)
	x.w.flying.Add(1)
	x.w.wg.Go(func() {
		defer x.w.flying.Add(-1)
		if f.lostRequest {
			return
		}
		time.Sleep(f.request)
		if x.p.dead.Load() {
			return
		}
		if closed(gone) {
			x.w.count(func(t *tally) { t.late++ })
		}
		// A request with an answer is not repeated after that: the store sends once.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), latest)
		defer cancel()
		v := exec(ctx)
		if f.twice && !once {
			if f.lostReply {
				time.Sleep(f.reply)
			}
			x.w.count(func(t *tally) { t.twice++ })
			exec(ctx)
		}
		time.Sleep(f.reply)
		if !f.lostReply {
			select {
			case reply <- v:
				return
			case <-gone:
			}
		}
		if unheard != nil {
			unheard(v)
		}
	})
	cut := make(<-chan time.Time)
	if f.cut > 0 {
		cut = time.After(f.cut)
	}
	select {
	case v := <-reply:
		if f.pause > 0 && !x.p.below { // else this may be no answer, and a pause would use up the time to ask again
			x.w.log("%s %s: stands still for %s", x.p.name, what, f.pause)
			x.s.pause(f.pause)
		}
		return v, nil
	case <-cut:
		x.w.log("%s %s: cut", x.p.name, what)
		return none, errCut
	case <-ctx.Done():
		x.w.log("%s %s: no answer", x.p.name, what)
		return none, ctx.Err()
	}
}

// answer is what the server says to an acquire or a transfer.
type answer struct {
	grant picket.Grant
	err   error
}

// carry lets the server do what is asked about key.
func (x *wire) carry(key string, do func() effect) {
	if x.w.host.remote() {
		do()
		return
	}
	x.w.ledger.at([]string{key}, func() []effect { return []effect{do()} })
}

func (x *wire) Acquire(ctx context.Context, c picket.Claim) (picket.Grant, error) {
	g := x.w.ledger
	g.sends(x.p, c, false)
	a, err := call(ctx, x, "acquire "+g.name(c.ID), false, func(ctx context.Context) (a answer) {
		x.carry(c.Key, func() effect {
			a.grant, a.err = x.p.store.Acquire(ctx, c)
			return asked("acquire", c, a)
		})
		return a
	}, nil)
	return g.hears(c, a, err)
}

// asked is what a was for c, by what the answer says.
func asked(op string, c picket.Claim, a answer) effect {
	e := effect{op: op, key: c.Key, id: c.ID, answer: a}
	if busy, ok := errors.AsType[*picket.BusyError](a.err); ok {
		e.queued, e.names = c.Queue, busy.Holder.ID
	}
	return e
}

func (x *wire) Release(ctx context.Context, c picket.Claim) error {
	g := x.w.ledger
	g.sends(x.p, c, true)
	answered, err := call(ctx, x, "release "+g.name(c.ID), false, func(ctx context.Context) (err error) {
		x.carry(c.Key, func() effect {
			err = x.p.store.Release(ctx, c)
			return effect{op: "release", key: c.Key, id: c.ID, answer: answer{err: err}}
		})
		return err
	}, nil)
	if err != nil {
		return err
	}
	return answered
}

func (x *wire) Inspect(ctx context.Context, key string) (picket.Status, error) {
	type inspected struct {
		picket.Status
		err error
	}
	st, err := call(ctx, x, "inspect", false, func(ctx context.Context) (st inspected) {
		st.Status, st.err = x.p.store.Inspect(ctx, key)
		return st
	}, nil)
	return st.Status, errors.Join(err, st.err)
}

// Renew reports in any order, and not on all.
func (x *wire) Renew(ctx context.Context, cs []picket.Claim, report func(i int, err error)) {
	what := "renew"
	for _, c := range cs {
		what += " " + x.w.ledger.name(c.ID)
	}
	answers, err := call(ctx, x, what, false, func(ctx context.Context) []func(int) { return x.renew(ctx, cs, report) }, nil)
	if err != nil {
		return
	}
	var all sync.WaitGroup
	for n := range cs {
		i := len(cs) - 1 - n
		if answers[i] == nil || x.w.weather() > calm && x.d.one(15) {
			continue
		}
		all.Go(func() { answers[i](i) })
	}
	all.Wait()
}

// renew returns how to report each answer that came.
func (x *wire) renew(ctx context.Context, cs []picket.Claim, report func(i int, err error)) []func(int) {
	answers := make([]func(int), len(cs))
	var mu sync.Mutex
	note := func(i int, err error) {
		mu.Lock()
		defer mu.Unlock()
		answers[i] = func(i int) { report(i, err) }
	}
	if x.w.host.remote() {
		x.p.store.Renew(ctx, cs, note)
		return answers
	}
	for i, c := range cs {
		x.carry(c.Key, func() effect {
			e := effect{op: "renew", key: c.Key, id: c.ID}
			x.p.store.Renew(ctx, []picket.Claim{c}, func(_ int, err error) { e.err = err })
			note(i, e.err)
			return e
		})
	}
	return answers
}

func (x transferWire) Transfer(ctx context.Context, from, to picket.Claim) (picket.Grant, error) {
	g := x.w.ledger
	g.sends(x.p, to, false)
	g.sends(x.p, from, true)
	g.swaps(from, to)
	a, err := call(ctx, x.wire, "transfer "+g.name(from.ID)+" to "+g.name(to.ID), false, func(ctx context.Context) (a answer) {
		x.carry(to.Key, func() effect {
			a.grant, a.err = x.p.store.Transfer(ctx, from, to)
			e := asked("transfer", to, a)
			e.from = from.ID
			return e
		})
		return a
	}, nil)
	grant, err := g.hears(to, a, err)
	if err == nil {
		g.swappedTo(from, to, grant.Waiters)
	}
	return grant, err
}

// watch is a listening at the server.
type watch struct {
	wake <-chan struct{}
	stop func()
	err  error
}

// Watch loses wake-ups, makes some up, and ends some listenings. Now and then a waiter gives up as it is woken.
func (x watchWire) Watch(ctx context.Context, c picket.Claim) (<-chan struct{}, func(), error) {
	g := x.w.ledger
	at, err := call(ctx, x.wire, "watch "+g.name(c.ID), true, func(ctx context.Context) (at watch) {
		time.Sleep(x.s.slow)
		at.wake, at.stop, at.err = x.p.store.Watch(ctx, c)
		return at
	}, func(at watch) {
		if at.stop != nil {
			at.stop()
		}
	})
	if err = errors.Join(err, at.err); err != nil {
		return nil, nil, err
	}
	out, done := make(chan struct{}, 1), make(chan struct{})
	var life <-chan time.Time
	if x.w.weather() > calm && x.d.one(6) {
		life = time.After(x.d.between(0, 3*time.Second))
	}
	x.w.wg.Go(func() {
		defer at.stop()
		for {
			select {
			case <-done:
				return
			case <-x.p.hungUp:
				return
			case <-life:
				close(out)
				return
			case <-at.wake:
				if x.w.weather() > calm && x.d.one(6) {
					x.s.giveUp()
				}
			case <-x.spurious():
			}
			if x.p.dead.Load() || x.w.weather() > calm && x.d.one(3) {
				continue
			}
			select {
			case out <- struct{}{}:
			default:
			}
		}
	})
	return out, sync.OnceFunc(func() { close(done) }), nil
}

// spurious fires when nothing has happened.
func (x watchWire) spurious() <-chan time.Time {
	if x.w.weather() == calm {
		return nil
	}
	return time.After(x.d.between(time.Second, 10*time.Second))
}
