package locktest

import "github.com/picket-go/picket"

// DESIGN 3.1: a clean-up can overtake the request that it cleans up after.
var undoing = theme{"undo", []check{
	{"an undone id is burnt: its late acquire is refused and the key stays free", 0, undoBeforeAcquire},
	{"a granted claim released in doubt is burnt too", 0, undoAfterGrant},
	{"a waiter that leaves in doubt is burnt too", queue, undoOfWaiter},
	{"undoing one id burns no other", 0, undoBurnsOne},
	{"an undo after the next grant leaves that lease alone", 0, undoUnderNext},
}}

// refusedLate sends c as a request that arrives after its own undo.
func (e *env) refusedLate(c picket.Claim) {
	e.Helper()
	c.Doubt = false
	for _, q := range []bool{false, true} {
		c.Queue, c.Recheck = q, e.long()
		if l, err := e.acquire(c); err == nil {
			e.clean(c)
			e.Fatalf("the undone claim %s of %q was granted token %d when it arrived late", c.ID, c.Key, l.Token)
		}
	}
	if err := e.renew(c); err == nil {
		e.Fatalf("the undone claim %s of %q was renewed", c.ID, c.Key)
	}
}

// undoBeforeAcquire covers L1 and L2.
func undoBeforeAcquire(e *env) {
	c := e.claim(e.key())
	c.Doubt = true
	e.lost("undo of a claim that never was", c, e.tryRelease(c))
	e.refusedLate(c)
	e.state(c.Key, picket.StatusFree)
	e.granted(e.claim(c.Key))
}

func undoAfterGrant(e *env) {
	c := e.granted(e.claim(e.key())).Claim
	c.Doubt = true
	e.release(c)
	e.refusedLate(c)
	e.state(c.Key, picket.StatusFree)
	next := e.granted(e.claim(c.Key))
	e.refusedLate(c)
	e.stillHolds(next.Claim)
}

func undoOfWaiter(e *env) {
	holder := e.granted(e.claim(e.key())).Claim
	w := e.waiter(holder.Key)
	e.busy(w)
	w.Doubt = true
	e.release(w)
	e.refusedLate(w)
	e.release(holder)
	e.state(holder.Key, picket.StatusFree)
	e.refusedLate(w)
}

func undoBurnsOne(e *env) {
	burnt := e.claim(e.key())
	burnt.Doubt = true
	e.lost("undo", burnt, e.tryRelease(burnt))
	e.granted(e.claim(burnt.Key))
	e.granted(e.claimAs(burnt.ID[:25]+"8", burnt.Key+"x")) // 8 is no letter of base 32
}

func undoUnderNext(e *env) {
	first := e.claim(e.key())
	next := e.granted(e.claim(first.Key))
	first.Doubt = true
	e.lost("undo under another's lease", first, e.tryRelease(first))
	e.refusedLate(first)
	e.stillHolds(next.Claim)
}
