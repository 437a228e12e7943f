package locktest

import (
	"time"

	"github.com/picket-go/picket"
)

var transferring = theme{"transfer", []check{
	{"a swap releases one claim and grants the other in one act", 0, swap},
	{"a swap is unconditional: waiters stay behind it", queue, swapBeforeWaiters},
	{"a transfer that queues is granted when nobody waits", 0, transferAlone},
	{"a transfer that queues goes to the back when others are due", queue, transferToBack},
	{"a transfer that queues is granted to the first in line", queue, transferToFirst},
	{"a transfer without a record is lost and does nothing for the other claim", 0, transferOfNothing},
	{"a transfer in doubt burns the released id", 0, transferInDoubt},
	{"a transfer to an undone claim is refused", 0, transferToUndone},
}}

// transfer calls the store's Transferer; the check is skipped if there is none.
func (e *env) transfer(from, to picket.Claim) (lease, error) {
	e.Helper()
	s, ok := e.store.(picket.Transferer)
	if !ok {
		e.Skip("the store is no picket.Transferer")
	}
	ctx, cancel := e.bounded()
	defer cancel()
	l := lease{Claim: to, sent: time.Now()}
	g, err := s.Transfer(ctx, from, to)
	l.Grant, l.got = g, time.Now()
	return l, err
}

// transferred is a transfer that must be granted.
func (e *env) transferred(from lease, to picket.Claim) lease {
	e.Helper()
	l, err := e.transfer(from.Claim, to)
	if err != nil {
		e.Fatalf("Transfer of %q = %v, want a grant", to.Key, err)
	}
	e.clean(to)
	if l.Token <= from.Token {
		e.Fatalf("Transfer gave token %d after %d, want a larger one", l.Token, from.Token)
	}
	e.remains(l, l.ttl())
	e.lost("Renew after Transfer", from.Claim, e.renew(from.Claim))
	again := from.Claim
	again.Doubt = false // else this release would burn the id, and not the transfer
	e.lost("Release after Transfer", again, e.tryRelease(again))
	e.stillHolds(to)
	return l
}

func swap(e *env) {
	l := e.granted(e.claim(e.key()))
	for range 3 {
		l = e.transferred(l, e.claim(l.Key))
	}
	e.release(l.Claim)
	e.state(l.Key, picket.StatusFree)
}

func swapBeforeWaiters(e *env) {
	l := e.granted(e.claim(e.key()))
	w := e.waiter(l.Key)
	e.busyBy(w, l.Claim)
	next := e.transferred(l, e.claim(l.Key))
	e.busyBy(w, next.Claim)
	e.within(window)
	e.release(next.Claim)
	e.granted(w)
}

func transferAlone(e *env) {
	l := e.granted(e.claim(e.key()))
	e.transferred(l, e.waiter(l.Key))
}

func transferToBack(e *env) {
	holder, ws := e.line(2)
	to := e.waiter(holder.Key)
	e.within(window)
	l, err := e.transfer(holder, to)
	if err == nil {
		e.clean(to)
		e.Fatalf("Transfer passed two waiters with token %d", l.Token)
	}
	e.heldBy(ws[0])
	for _, w := range append(ws, to) {
		e.granted(w)
		e.within(window)
		e.release(w)
	}
	e.state(holder.Key, picket.StatusFree)
}

func transferToFirst(e *env) {
	holder, ws := e.line(2)
	l := lease{Claim: holder}
	l.Token = e.heldBy(holder).Token
	next := e.transferred(l, ws[0])
	e.busyBy(ws[1], next.Claim)
	e.within(window)
	e.release(next.Claim)
	e.granted(ws[1])
}

func transferOfNothing(e *env) {
	for _, q := range []bool{false, true} {
		from := e.claim(e.key())
		to := e.claim(from.Key)
		to.Queue, to.Recheck = q, e.long()
		_, err := e.transfer(from, to)
		e.lost("Transfer of a free key", from, err)
		e.state(from.Key, picket.StatusFree)

		holder := e.granted(e.claim(from.Key)).Claim
		_, err = e.transfer(from, to)
		e.lost("Transfer of another's key", from, err)
		e.stillHolds(holder)
		e.release(holder)
		e.state(from.Key, picket.StatusFree)
		e.granted(e.claim(from.Key))
	}
}

func transferInDoubt(e *env) {
	l := e.granted(e.claim(e.key()))
	l.Doubt = true
	next := e.transferred(l, e.claim(l.Key))
	e.refusedLate(l.Claim)
	e.stillHolds(next.Claim)
	e.release(next.Claim)
	e.refusedLate(l.Claim)
	e.state(l.Key, picket.StatusFree)
}

// transferToUndone is a transfer that arrives after the undo of the claim that it is for.
func transferToUndone(e *env) {
	l := e.granted(e.claim(e.key()))
	to := e.claim(l.Key)
	to.Doubt = true
	e.lost("undo", to, e.tryRelease(to))
	to.Doubt = false
	if next, err := e.transfer(l.Claim, to); err == nil {
		e.clean(to)
		e.Fatalf("the undone claim %s of %q was granted token %d by a transfer", to.ID, to.Key, next.Token)
	}
	e.refusedLate(to)
}
