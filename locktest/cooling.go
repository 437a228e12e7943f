package locktest

import (
	"time"

	"github.com/picket-go/picket"
)

// DESIGN 3.5.
var minHolding = theme{"min-hold", []check{
	{"a released key stays busy until its MinHold is over and not longer", minHold, minHoldKeepsBusy},
	{"the record that MinHold keeps matches no claim", minHold, keptMatchesNobody},
	{"the rest of the MinHold is what remains", minHold, keptRest},
	{"a MinHold that is over frees at once", minHold, minHoldOver},
	{"waiters come in after the MinHold", minHold | queue, waitersAfterMinHold},
}}

var lockDelaying = theme{"lock-delay", []check{
	{"a lost key stays busy until its LockDelay is over and not longer", lockDelay, lockDelayKeepsBusy},
	{"a key in its LockDelay is cooling and its lease is not renewed", lockDelay, lockDelayRefusesRenewal},
	{"a late release ends the LockDelay", lockDelay, lateReleaseEndsDelay},
	{"a release in time leaves no LockDelay", lockDelay, releaseLeavesNoDelay},
	{"a hand-off that nobody confirmed has no LockDelay", lockDelay | queue, handOffHasNoDelay},
}}

// kept is a lease that was released with the rest of its MinHold to go.
func (e *env) kept(rest time.Duration) lease {
	e.Helper()
	c := e.claim(e.key())
	c.MinHold = rest
	l := e.granted(c)
	e.release(c)
	return l
}

func minHoldKeepsBusy(e *env) {
	rest := 2 * e.conf.TTL
	l := e.kept(rest)
	next := e.takenOver(l, rest)
	if next.Token <= l.Token {
		e.Errorf("token %d follows %d", next.Token, l.Token)
	}
}

// keptMatchesNobody: the released claim's late renewal or retry must not take the record for its own.
func keptMatchesNobody(e *env) {
	l := e.kept(e.long())
	e.state(l.Key, picket.StatusCooling)
	e.lost("Renew after Release", l.Claim, e.renew(l.Claim))
	e.lost("second Release", l.Claim, e.tryRelease(l.Claim))
	e.busy(l.Claim)
	e.busy(e.claim(l.Key))
	e.state(l.Key, picket.StatusCooling)
}

func keptRest(e *env) {
	rest := e.long() / 2
	l := e.kept(rest)
	s := e.state(l.Key, picket.StatusCooling)
	least, most := rest-s.got.Sub(l.sent)-e.early(), rest-s.sent.Sub(l.got)+e.early()
	if s.Remaining < least || s.Remaining > most {
		e.Errorf("%q cools for %v more, want %v to %v", l.Key, s.Remaining, least, most)
	}
	if b := e.busy(e.claim(l.Key)); b.Remaining <= 0 || b.Remaining > most {
		e.Errorf("busy for %v, want at most %v", b.Remaining, most)
	}
	if s.Token != l.Token {
		e.Errorf("Inspect says token %d, want %d", s.Token, l.Token)
	}
}

func minHoldOver(e *env) {
	c := e.claim(e.key())
	c.MinHold = e.conf.TTL
	l := e.granted(c)
	e.until(l.got.Add(c.MinHold + e.early()))
	e.release(c)
	e.state(c.Key, picket.StatusFree)
	e.granted(e.claim(c.Key))
}

func waitersAfterMinHold(e *env) {
	c := e.claim(e.key())
	c.MinHold = 2 * e.conf.TTL
	l := e.granted(c)
	w := e.waiter(c.Key)
	e.busyBy(w, c)
	e.release(c)
	got := e.eventually(w, time.Until(l.got.Add(c.MinHold+late)))
	if after := got.got.Sub(l.sent); after < c.MinHold-e.early() {
		e.Errorf("the waiter came in after %v, MinHold is %v", after, c.MinHold)
	}
}

// delayed is a lease with a LockDelay.
func (e *env) delayed(d time.Duration) lease {
	e.Helper()
	c := e.brief(e.key())
	c.LockDelay = d
	return e.granted(c)
}

func lockDelayKeepsBusy(e *env) {
	delay := 2 * e.conf.TTL
	l := e.delayed(delay)
	e.takenOver(l, l.ttl()+delay)
}

func lockDelayRefusesRenewal(e *env) {
	l := e.delayed(e.long())
	e.until(e.over(l))
	e.lost("Renew in the LockDelay", l.Claim, e.renew(l.Claim))
	s := e.state(l.Key, picket.StatusCooling)
	if most := l.ttl() + l.LockDelay - s.sent.Sub(l.got) + e.early(); s.Remaining <= 0 || s.Remaining > most {
		e.Errorf("cooling for %v, want at most %v", s.Remaining, most)
	}
	e.busy(e.claim(l.Key))
	e.state(l.Key, picket.StatusCooling)
}

func lateReleaseEndsDelay(e *env) {
	l := e.delayed(e.long())
	e.until(e.over(l))
	e.state(l.Key, picket.StatusCooling)
	if err := e.tryRelease(l.Claim); err != nil {
		e.lost("late Release", l.Claim, err) // the lease was over, though nobody came in
	}
	e.state(l.Key, picket.StatusFree)
	e.granted(e.claim(l.Key))
}

func releaseLeavesNoDelay(e *env) {
	c := e.claim(e.key())
	c.LockDelay = e.long()
	e.granted(c)
	e.release(c)
	e.state(c.Key, picket.StatusFree)
}

func handOffHasNoDelay(e *env) {
	holder := e.granted(e.claim(e.key())).Claim
	sleeper := e.waiter(holder.Key)
	sleeper.TTL, sleeper.LockDelay = e.conf.TTL, 2*patience
	e.busyBy(sleeper, holder)
	e.clean(sleeper)
	second := e.waiter(holder.Key)
	e.busyBy(second, holder)
	e.release(holder)
	e.eventually(second, e.conf.TTL+late)
}
