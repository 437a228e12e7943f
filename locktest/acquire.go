package locktest

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/picket-go/picket"
)

var acquiring = theme{"acquire", []check{
	{"a free key is granted at once", 0, freeKeyIsGranted},
	{"one claim holds, every other is busy, on every client", 0, oneClaimHolds},
	{"many goroutines on several clients are never inside together", 0, neverInsideTogether},
	{"the same claim again gets the same token and the full TTL", 0, sameClaimAgain},
	{"the same claim at once from many goroutines gets one token", 0, sameClaimAtOnce},
	{"an acquire with a smaller TTL never shortens the lease", expiry, acquireNeverShortens},
	{"ids are compared whole", 0, idsAreComparedWhole},
	{"the busy error says who holds and for how long", 0, busySaysWho},
	{"the grant says what TTL the store really set", 0, grantSaysTTL},
}}

func freeKeyIsGranted(e *env) {
	l := e.granted(e.claim(e.key()))
	e.remains(l, l.ttl())
}

func oneClaimHolds(e *env) {
	holder := e.granted(e.claim(e.key()))
	for range 3 {
		other := e.on(e.conf.New(e.T))
		other.busyBy(other.claim(holder.Key), holder.Claim)
		other.heldBy(holder.Claim)
	}
	e.stillHolds(holder.Claim)
}

// neverInsideTogether is the promise itself; tokens must rise from section to section too.
func neverInsideTogether(e *env) {
	const clients, callers, enough = 3, 8, 160
	var stores []*env
	for range clients {
		stores = append(stores, e.on(e.conf.New(e.T)))
	}
	var (
		key      = e.key()
		end      = time.Now().Add(2 * time.Second)
		inside   atomic.Int32
		sections atomic.Int32
		last     atomic.Int64
		wg       sync.WaitGroup
	)
	section := func(c *env, cl picket.Claim) bool {
		l, err := c.acquire(cl)
		if err != nil {
			if !errors.Is(err, picket.ErrBusy) {
				c.Errorf("Acquire = %v, want a grant or a *BusyError", err)
			}
			return false
		}
		if n := inside.Add(1); n != 1 {
			c.Errorf("%d claims hold %q at once", n, key)
		}
		if before := last.Swap(l.Token); l.Token <= before {
			c.Errorf("token %d follows %d", l.Token, before)
		}
		c.pause(50 * time.Microsecond)
		inside.Add(-1)
		sections.Add(1)
		if err := c.tryRelease(cl); err != nil {
			c.Errorf("Release = %v", err)
		}
		return true
	}
	for i := range callers {
		wg.Go(func() {
			c := stores[i%clients]
			for time.Now().Before(end) && sections.Load() < enough && !c.Failed() {
				cl := c.waiter(key)
				for !section(c, cl) {
					if !time.Now().Before(end) || sections.Load() >= enough || c.Failed() {
						_ = c.tryRelease(cl) // gives up its place
						return
					}
					c.pause(time.Millisecond)
				}
			}
		})
	}
	wg.Wait()
	if n := sections.Load(); n < callers {
		e.Errorf("only %d sections in 2 s", n)
	}
}

// sameClaimAgain: a lost reply followed by a retry is a success, and a retry that only reads believes in time the server does not give (DESIGN 3.1, L3, GL-01).
func sameClaimAgain(e *env) {
	first := e.granted(e.claim(e.key()))
	e.until(first.got.Add(e.conf.TTL))
	for range 2 {
		again, err := e.on(e.conf.New(e.T)).acquire(first.Claim)
		if err != nil {
			e.Fatalf("the same claim again = %v, want a grant", err)
		}
		if again.Token != first.Token {
			e.Fatalf("the same claim again has token %d, want %d", again.Token, first.Token)
		}
		e.remains(again, again.ttl())
	}
}

func sameClaimAtOnce(e *env) {
	var (
		c      = e.claim(e.key())
		grants [6]lease
		errs   [6]error
		wg     sync.WaitGroup
	)
	for i := range grants {
		wg.Go(func() { grants[i], errs[i] = e.acquire(c) })
	}
	wg.Wait()
	e.clean(c)
	if err := errors.Join(errs[:]...); err != nil {
		e.Fatalf("one claim from %d goroutines = %v", len(grants), err)
	}
	for _, g := range grants {
		if g.Token != grants[0].Token {
			e.Fatalf("one claim has tokens %d and %d", g.Token, grants[0].Token)
		}
	}
}

func acquireNeverShortens(e *env) {
	first := e.granted(e.claim(e.key()))
	cut := first.Claim
	cut.TTL = e.conf.TTL
	again := e.granted(cut)
	if again.Token != first.Token {
		e.Fatalf("the same claim again has token %d, want %d", again.Token, first.Token)
	}
	e.remains(first, first.ttl())
}

// idsAreComparedWhole: a prefix compare lets job-1 steal from job-10 (DESIGN 4.1, GL-11).
func idsAreComparedWhole(e *env) {
	id := e.claim("").ID
	pairs := [][2]string{
		{id[:25] + "A", id[:25] + "B"},
		{"A" + id[1:], "B" + id[1:]},
		{id[:25] + "A", id[:25] + "a"},
		{"job-1", "job-10"},
		{id, id + "A"},
		{id, id[:25]},
	}
	for _, p := range pairs {
		for _, ids := range [][2]string{p, {p[1], p[0]}} {
			holder := e.claimAs(ids[0], e.key())
			if _, err := e.acquire(holder); err != nil {
				if len(ids[0]) != len(id) && (errors.Is(err, picket.ErrInvalid) || errors.Is(err, picket.ErrUnsupported)) {
					continue // the store takes ids of 26 characters only
				}
				e.Fatalf("Acquire with id %q = %v", ids[0], err)
			}
			e.clean(holder)
			other := e.claimAs(ids[1], holder.Key)
			if g, err := e.acquire(other); err == nil {
				e.Fatalf("id %q was granted the key of %q, token %d", other.ID, holder.ID, g.Token)
			}
			if err := e.renew(other); err == nil {
				e.Fatalf("id %q renewed the lease of %q", other.ID, holder.ID)
			}
			if err := e.tryRelease(other); err == nil {
				e.Fatalf("id %q released the lease of %q", other.ID, holder.ID)
			}
			e.stillHolds(holder)
		}
	}
}

func busySaysWho(e *env) {
	holder := e.granted(e.claim(e.key()))
	asked := time.Now()
	b := e.busyBy(e.claim(holder.Key), holder.Claim)
	if h := holder.Holder; b.Holder.Host != h.Host || b.Holder.PID != h.PID || b.Holder.Label != h.Label {
		e.Errorf("busy by %+v, want %+v", b.Holder, h)
	}
	// The store's clock may differ from ours, but not by a day in a test.
	if since := time.Since(b.Holder.Since); since.Abs() > 24*time.Hour {
		e.Errorf("held since %v, want about now", b.Holder.Since)
	}
	switch most := holder.ttl() - asked.Sub(holder.got) + e.early(); {
	case e.conf.NoExpiry && b.Remaining != picket.NoExpiry:
		e.Errorf("busy for %v, want NoExpiry", b.Remaining)
	case !e.conf.NoExpiry && (b.Remaining <= 0 || b.Remaining > most):
		e.Errorf("busy for %v, want at most %v", b.Remaining, most)
	}
	if b.Waiters > 0 {
		e.Errorf("%d waiters before us, want none", b.Waiters)
	}
}

func grantSaysTTL(e *env) {
	l := e.granted(e.brief(e.key()))
	switch {
	case e.conf.NoExpiry && l.ttl() != picket.NoExpiry:
		e.Errorf("Grant.TTL = %v, want NoExpiry", l.Grant.TTL)
	case !e.conf.NoExpiry && (l.ttl() < l.Claim.TTL || l.ttl() == picket.NoExpiry):
		e.Errorf("Grant.TTL = %v, want 0 or at least %v", l.Grant.TTL, l.Claim.TTL)
	}
	if l.Waiters > 0 {
		e.Errorf("Grant.Waiters = %d, want 0 or -1", l.Waiters)
	}
}
