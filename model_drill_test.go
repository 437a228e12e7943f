package picket_test

import (
	"crypto/rand"
	"errors"
	"sync"
	"time"

	"github.com/picket-go/picket"
)

// drill brings about, in calm weather, what chance brings too seldom.
func (w *world) drill() {
	w.heir()
	w.ear()
	w.widow()
	w.latecomer()
	w.corpses()
	w.tickets()
}

// heir lets a lease end by itself: who waits asks right then.
func (w *world) heir() {
	const ttl = 150 * time.Millisecond // it asks every 200 ms otherwise
	s := w.seats[0]
	l, err := s.now.locker.With(picket.WithTTL(ttl), picket.WithoutRenewal()).TryAcquire(w.t.Context(), w.keys[0])
	if err != nil {
		w.violation(stuck, "in calm weather nobody holds %q, but %s says %v", w.keys[0], s.now.name, err)
		return
	}
	w.ledger.tells(s.now.name, l)
	w.enter(w.seats[1], w.keys[0], 0, 0, ttl+20*time.Millisecond)
}

// ear lets a key be handed to a waiter that is about to listen and will not hear of it: it asks as soon as it listens.
func (w *world) ear() {
	if !w.wakes {
		return
	}
	const slow = 60 * time.Millisecond
	s := w.seats[1]
	s.slow = slow
	var all sync.WaitGroup
	all.Go(func() { w.enter(w.seats[0], w.keys[0], 0, slow/2, time.Second) })
	all.Go(func() { w.enter(s, w.keys[0], 10*time.Millisecond, 0, slow+30*time.Millisecond) })
	all.Wait()
}

// widow lets a waiter die that is handed the key. The next one, which stood far back when it last asked, is told to look when nobody has confirmed.
func (w *world) widow() {
	if !w.wakes || !w.host.remote() || len(w.seats) < 4 { // memory does not tell it
		return
	}
	const asks = 20 * time.Millisecond
	s, key := w.seats[2], w.keys[0]
	l, err := w.seats[0].now.locker.TryAcquire(w.t.Context(), key)
	if err != nil {
		w.violation(stuck, "in calm weather nobody holds %q, but %s says %v", key, w.seats[0].now.name, err)
		return
	}
	h := w.ledger.tells(w.seats[0].now.name, l)
	var all sync.WaitGroup
	all.Go(func() { w.enter(w.seats[1], key, 0, 0, time.Second) })
	all.Go(func() {
		time.Sleep(asks)
		p := s.process()
		defer w.ledger.asks(p, key)()
		if _, err := p.locker.Acquire(w.t.Context(), key); !errors.Is(err, picket.ErrClosed) {
			w.violation(refusal, "in calm weather a waiter that is killed says %v", err)
		}
	})
	all.Go(func() { w.enter(w.seats[3], key, 2*asks, 0, 1200*time.Millisecond) })
	time.Sleep(4 * asks)
	s.kill(s.start(), false)
	w.leave(h)
	all.Wait()
}

// claim is one that a drill makes by itself, without a Locker.
func (w *world) claim(queue bool) picket.Claim {
	id := rand.Text()
	return picket.Claim{ID: id, Key: w.keys[0], TTL: 5 * time.Second, Queue: queue, Recheck: 3 * time.Second, Holder: picket.Holder{ID: id, Host: "drill"}}
}

// says wants an attempt to end so.
func (w *world) says(want error, c picket.Claim) {
	if _, err := w.seats[0].now.wire.Acquire(w.t.Context(), c); !errors.Is(err, want) {
		w.violation(refusal, "in calm weather an acquire of %s says %v, want %v", w.name(c.ID), err, want)
	}
}

func (w *world) gives(c picket.Claim) {
	if err := w.seats[0].now.wire.Release(w.t.Context(), c); err != nil {
		w.violation(refusal, "in calm weather a release of %s says %v", w.name(c.ID), err)
	}
}

// latecomer is a claim in doubt whose request comes after a transfer that did not find it.
func (w *world) latecomer() {
	from, to := w.claim(false), w.claim(true)
	w.says(nil, from)
	w.gives(from)
	from.Doubt = true
	if _, err := (transferWire{w.seats[0].now.wire}).Transfer(w.t.Context(), from, to); !errors.Is(err, picket.ErrLost) {
		w.violation(refusal, "in calm weather a transfer from nobody says %v", err)
	}
	w.says(picket.ErrRefused, from)
}

// corpses are more dead waiters than redisstore looks at if all are alive.
func (w *world) corpses() {
	holder, next := w.claim(false), w.claim(false)
	w.says(nil, holder)
	for range near + 10 {
		c := w.claim(true)
		c.Recheck = time.Millisecond
		w.says(picket.ErrBusy, c)
	}
	time.Sleep(2 * time.Second)
	w.gives(holder)
	w.says(nil, next)
	w.gives(next)
}

// tickets keep their order when the server's clock steps back, also past one that was handed the key and will let that lapse.
func (w *world) tickets() {
	holder, first, second, third := w.claim(false), w.claim(true), w.claim(true), w.claim(true)
	w.says(nil, holder)
	w.says(picket.ErrBusy, first)
	w.host.step(time.Hour)
	w.gives(holder)
	w.says(picket.ErrBusy, second)
	w.says(picket.ErrBusy, third)
	time.Sleep(1100 * time.Millisecond)
	w.says(picket.ErrBusy, first) // others go first once
	for _, c := range []picket.Claim{second, first, third} {
		w.says(nil, c)
		w.gives(c)
	}
}
