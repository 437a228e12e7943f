package locktest

import (
	"time"

	"github.com/picket-go/picket"
)

// window is how long a hand-off may stay unconfirmed at the least: min(TTL, 1 s) by DESIGN 3.6.
const window = time.Second

var queueing = theme{"queue", []check{
	{"waiters are served in the order they came", queue, firstInFirstOut},
	{"a release hands the key to the first waiter in the same act", queue, releaseHandsOver},
	{"a confirm returns the token of the hand-off and the full TTL", queue, confirmReturnsToken},
	{"asking again keeps the place", queue, askingKeepsPlace},
	{"a try never passes a live waiter and names the one served", queue, tryNeverPasses},
	{"a try after an expiry hands the key to the first waiter", queue | expiry, tryHandsOver},
	{"a try leaves no place behind", queue, tryLeavesNothing},
	{"asking again without Queue gives the place up", queue, tryGivesPlaceUp},
	{"a waiter that leaves lets the next one in", queue, leavingLetsIn},
	{"a waiter that leaves after its hand-off lets the next one in", queue, leavingAfterHandOff},
	{"dead waiters are passed", queue, deadArePassed},
	{"a lapsed hand-off is passed over once and keeps its place", queue | expiry, lapsedKeepsPlace},
	{"the busy error counts the waiters before us", queue, busyCounts},
}}

// line is a held key and its waiters in order.
func (e *env) line(n int) (picket.Claim, []picket.Claim) {
	e.Helper()
	holder := e.granted(e.claim(e.key())).Claim
	ws := make([]picket.Claim, n)
	for i := range ws {
		ws[i] = e.waiter(holder.Key)
		e.busyBy(ws[i], holder)
		e.clean(ws[i])
	}
	return holder, ws
}

// firstInFirstOut covers GL-38.
func firstInFirstOut(e *env) {
	holder, ws := e.line(6)
	for _, w := range ws {
		e.within(window)
		e.release(holder)
		e.heldBy(w)
		e.granted(w)
		holder = w
	}
	e.release(holder)
	e.state(holder.Key, picket.StatusFree)
}

func releaseHandsOver(e *env) {
	holder, ws := e.line(2)
	before := e.heldBy(holder).Token
	e.within(window)
	e.release(holder)
	if s := e.heldBy(ws[0]); s.Token <= before {
		e.Errorf("the hand-off has token %d after %d, want a larger one", s.Token, before)
	}
	e.busyBy(ws[1], ws[0])
}

func confirmReturnsToken(e *env) {
	holder, ws := e.line(1)
	e.within(window)
	e.release(holder)
	handed := e.heldBy(ws[0])
	l := e.granted(ws[0])
	if l.Token != handed.Token {
		e.Fatalf("the confirm returned token %d, want %d of the hand-off", l.Token, handed.Token)
	}
	if e.conf.NoExpiry {
		return
	}
	e.within(patience)
	e.remains(l, l.ttl())
}

func askingKeepsPlace(e *env) {
	holder, ws := e.line(3)
	for range 3 {
		e.busyBy(ws[0], holder)
		e.busyBy(ws[2], holder)
	}
	for _, w := range ws {
		e.within(window)
		e.release(holder)
		e.granted(w)
		holder = w
	}
}

func tryNeverPasses(e *env) {
	holder, ws := e.line(1)
	e.within(window)
	e.release(holder)
	for range 3 {
		e.busyBy(e.claim(holder.Key), ws[0])
	}
	e.granted(ws[0])
	e.busyBy(e.claim(holder.Key), ws[0])
}

// tryHandsOver: a hand-off needs no special hero, any call does it (DESIGN 3.6).
func tryHandsOver(e *env) {
	l := e.granted(e.brief(e.key()))
	w := e.waiter(l.Key)
	e.busy(w)
	e.clean(w)
	e.until(e.over(l))
	for end := time.Now().Add(late); ; e.pause(e.conf.TTL / 20) {
		sent := time.Now()
		e.within(window)
		if b := e.busy(e.claim(l.Key)); b.Holder.ID == w.ID {
			break
		}
		if sent.After(end) {
			e.Fatalf("the key of an expired lease is not given to its waiter after %v", late)
		}
	}
	e.granted(w)
}

// tryLeavesNothing covers GL-08 and GL-40.
func tryLeavesNothing(e *env) {
	holder := e.granted(e.claim(e.key())).Claim
	for range 3 {
		e.busyBy(e.claim(holder.Key), holder)
	}
	if s := e.heldBy(holder); s.Waiters > 0 {
		e.Errorf("%d waiters after three tries", s.Waiters)
	}
	e.release(holder)
	e.state(holder.Key, picket.StatusFree)
}

func tryGivesPlaceUp(e *env) {
	holder, ws := e.line(1)
	ws[0].Queue = false
	e.busyBy(ws[0], holder)
	e.release(holder)
	e.state(holder.Key, picket.StatusFree)
}

// leavingLetsIn covers GL-08, GL-40 and C4.
func leavingLetsIn(e *env) {
	holder, ws := e.line(3)
	e.release(ws[0])
	e.lost("Release of a place given up", ws[0], e.tryRelease(ws[0]))
	e.within(window)
	e.release(holder)
	e.heldBy(ws[1])
	e.granted(ws[1])
	e.release(ws[2])
	e.release(ws[1])
	e.state(holder.Key, picket.StatusFree)
}

func leavingAfterHandOff(e *env) {
	holder, ws := e.line(2)
	e.within(window)
	e.release(holder)
	e.heldBy(ws[0])
	e.release(ws[0])
	e.heldBy(ws[1])
	e.granted(ws[1])
}

// deadArePassed covers Q1: thirty dead waiters cost neither thirty heartbeat lives nor thirty unconfirmed hand-offs.
func deadArePassed(e *env) {
	holder := e.granted(e.claim(e.key())).Claim
	for range 30 {
		dead := e.waiter(holder.Key)
		dead.Recheck = max(e.conf.TTL/20, time.Millisecond)
		e.busyBy(dead, holder)
	}
	live := e.waiter(holder.Key)
	e.busyBy(live, holder)
	e.release(holder)
	e.eventually(live, patience)
}

func lapsedKeepsPlace(e *env) {
	holder := e.granted(e.claim(e.key())).Claim
	sleeper := e.waiter(holder.Key)
	sleeper.TTL = 3 * e.conf.TTL
	second, third := e.waiter(holder.Key), e.waiter(holder.Key)
	for _, w := range []picket.Claim{sleeper, second, third} {
		e.busyBy(w, holder)
		e.clean(w)
	}
	e.release(holder)
	e.eventually(second, min(sleeper.TTL, window)+late)
	e.within(min(sleeper.TTL, window))
	e.busyBy(sleeper, second) // not dead, it was slow
	e.release(second)
	e.heldBy(sleeper)
	e.granted(sleeper)
}

func busyCounts(e *env) {
	holder, ws := e.line(3)
	for i, w := range ws {
		if b := e.busyBy(w, holder); b.Waiters != i && b.Waiters != -1 {
			e.Errorf("waiter %d is told that %d are before it", i, b.Waiters)
		}
	}
	if b := e.busyBy(e.claim(holder.Key), holder); b.Waiters != 3 && b.Waiters != -1 {
		e.Errorf("a try is told that %d wait, want 3", b.Waiters)
	}
}
