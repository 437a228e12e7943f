package locktest

import (
	"time"

	"github.com/picket-go/picket"
)

var expiring = theme{"expire", []check{
	{"an expired key is free within the TTL and not before", expiry, expiresInTime},
	{"a renewed lease lives its TTL from the renewal", expiry, expiresFromRenewal},
	{"keys expire each in its own time", expiry, expireApart},
	{"a lease without expiry stays until it is released", endless, staysUntilReleased},
}}

// takenOver waits for the next claim of l's key: it must come after at least d from l.sent and at most d from l.got.
func (e *env) takenOver(l lease, d time.Duration) lease {
	e.Helper()
	next := e.eventually(e.claim(l.Key), time.Until(l.got.Add(d+late)))
	if after := next.got.Sub(l.sent); after < d-e.early() {
		e.Fatalf("%q was given on after %v, want not before %v", l.Key, after, d)
	}
	return next
}

func expiresInTime(e *env) {
	l := e.granted(e.brief(e.key()))
	e.takenOver(l, l.ttl())
	e.lost("Renew", l.Claim, e.renew(l.Claim))
}

func expiresFromRenewal(e *env) {
	l := e.granted(e.brief(e.key()))
	ttl := l.ttl()
	for range 3 {
		e.until(l.sent.Add(ttl / 3))
		sent := time.Now()
		if err := e.renew(l.Claim); err != nil {
			if time.Since(l.sent) > ttl-e.early() {
				e.Skipf("the machine stalled for a TTL (%v): nothing can be told", ttl)
			}
			e.Fatalf("Renew inside the TTL = %v", err)
		}
		l.sent, l.got = sent, time.Now()
	}
	e.takenOver(l, ttl)
}

func expireApart(e *env) {
	stays := e.granted(e.claim(e.key()))
	for range 3 {
		l := e.granted(e.brief(e.key()))
		e.takenOver(l, l.ttl())
	}
	e.stillHolds(stays.Claim)
}

func staysUntilReleased(e *env) {
	l := e.granted(e.brief(e.key()))
	e.until(l.got.Add(2 * l.Claim.TTL))
	e.busyBy(e.claim(l.Key), l.Claim)
	e.stillHolds(l.Claim)
	e.release(l.Claim)
	e.state(l.Key, picket.StatusFree)
}
