package locktest

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/picket-go/picket"
)

var renewing = theme{"renew", []check{
	{"renewing sets the remaining time back to the TTL", 0, renewSetsBack},
	{"another client can renew a claim by its id", 0, renewElsewhere},
	{"renewing to a longer TTL lengthens the lease", expiry, renewLengthens},
	{"renewing to a smaller TTL never shortens the lease", expiry, renewNeverShortens},
	{"renewing never creates a record", 0, renewNeverCreates},
	{"renewing never revives an expired lease", expiry, renewNeverRevives},
	{"renewing a waiter is refused and leaves its place", queue, renewOfWaiter},
	{"a mixed batch reports each claim once and none after it returned", 0, mixedBatch},
	{"a big batch is renewed whole", 0, bigBatch},
	{"an empty batch reports nothing", 0, emptyBatch},
}}

// renewAll renews cs and returns what was reported; each claim must be reported exactly once, and before Renew returns.
func (e *env) renewAll(cs []picket.Claim) []error {
	e.Helper()
	var (
		mu       sync.Mutex
		returned atomic.Bool
		errs     = make([]error, len(cs))
		reports  = make([]int, len(cs))
	)
	ctx, cancel := e.bounded()
	defer cancel()
	e.store.Renew(ctx, cs, func(i int, err error) {
		if returned.Load() {
			panic("locktest: Renew reported after it had returned") // the check that asked may be over: too late for Errorf
		}
		mu.Lock()
		defer mu.Unlock()
		if i < 0 || i >= len(cs) {
			e.Errorf("Renew reported claim %d of %d", i, len(cs))
			return
		}
		reports[i]++
		errs[i] = err
	})
	returned.Store(true)
	mu.Lock()
	defer mu.Unlock()
	for i, n := range reports {
		if n != 1 {
			e.Fatalf("Renew reported claim %d of %d %d times, want once", i, len(cs), n)
		}
	}
	return errs
}

// renewed renews l and returns it with the moments of the renewal.
func (e *env) renewed(l lease) lease {
	e.Helper()
	l.sent = time.Now()
	if err := e.renew(l.Claim); err != nil {
		e.Fatalf("Renew(%s of %q) = %v, want nil", l.ID, l.Key, err)
	}
	l.got = time.Now()
	return l
}

func renewSetsBack(e *env) {
	l := e.granted(e.claim(e.key()))
	e.until(l.got.Add(e.conf.TTL))
	l = e.renewed(l)
	e.remains(l, l.ttl())
}

func renewLengthens(e *env) {
	l := e.granted(e.claim(e.key()))
	l.Claim.TTL *= 2
	l = e.renewed(l)
	e.remains(l, l.Claim.TTL)
}

// renewNeverShortens: a late renewal would cut a longer lease (DESIGN 3.2).
func renewNeverShortens(e *env) {
	l := e.granted(e.claim(e.key()))
	cut := l
	cut.Claim.TTL = e.conf.TTL
	e.renewed(cut)
	e.remains(l, l.ttl())
}

// renewElsewhere covers L17: a handle rebuilt from key, id and TTL never makes the lease endless.
func renewElsewhere(e *env) {
	l := e.granted(e.claim(e.key()))
	copied := l
	copied.Claim = e.claimAs(l.ID, l.Key)
	copied.Claim.TTL = 2 * l.Claim.TTL
	copied = e.on(e.conf.New(e.T)).renewed(copied)
	e.remains(copied, copied.Claim.TTL)
}

// renewNeverCreates covers GL-17.
func renewNeverCreates(e *env) {
	never := e.claim(e.key())
	e.lost("Renew of a claim that never was", never, e.renew(never))
	e.state(never.Key, picket.StatusFree)

	released := e.granted(e.claim(e.key())).Claim
	e.release(released)
	e.lost("Renew after Release", released, e.renew(released))
	e.state(released.Key, picket.StatusFree)

	holder := e.granted(e.claim(e.key())).Claim
	other := e.claim(holder.Key)
	e.lost("Renew of a busy key", other, e.renew(other))
	e.stillHolds(holder)
}

// renewNeverRevives covers GL-18.
func renewNeverRevives(e *env) {
	l := e.granted(e.brief(e.key()))
	e.ends(l)
	e.lost("Renew after expiry", l.Claim, e.renew(l.Claim))
	e.granted(e.claim(l.Key))
	e.lost("Renew after the next grant", l.Claim, e.renew(l.Claim))
}

func renewOfWaiter(e *env) {
	holder := e.granted(e.claim(e.key())).Claim
	w := e.waiter(holder.Key)
	e.busy(w)
	e.lost("Renew of a waiter", w, e.renew(w))
	e.stillHolds(holder)
	e.release(holder)
	e.granted(w)
}

func mixedBatch(e *env) {
	good := e.granted(e.claim(e.key())).Claim
	released := e.granted(e.claim(e.key())).Claim
	e.release(released)
	holder := e.granted(e.claim(e.key())).Claim
	stranger := e.claim(holder.Key)
	never := e.claim(e.key())
	last := e.granted(e.claim(e.key())).Claim

	errs := e.renewAll([]picket.Claim{good, released, stranger, never, holder, last})
	for i, want := range []bool{true, false, false, false, true, true} {
		if got := errs[i] == nil; got != want {
			e.Errorf("claim %d of the batch: %v, want success %v", i, errs[i], want)
		}
		if errs[i] != nil && !errors.Is(errs[i], picket.ErrLost) {
			e.Errorf("claim %d of the batch: %v, want ErrLost", i, errs[i])
		}
	}
	e.state(released.Key, picket.StatusFree)
	e.state(never.Key, picket.StatusFree)
	e.heldBy(holder)
}

// bigBatch covers GL-70.
func bigBatch(e *env) {
	cs := make([]picket.Claim, 100)
	for i := range cs {
		cs[i] = e.granted(e.claim(e.key())).Claim
	}
	for i, err := range e.renewAll(cs) {
		if err != nil {
			e.Fatalf("claim %d of %d: %v", i, len(cs), err)
		}
	}
}

func emptyBatch(e *env) {
	if errs := e.renewAll(nil); len(errs) != 0 {
		e.Fatalf("an empty batch reported %v", errs)
	}
}
