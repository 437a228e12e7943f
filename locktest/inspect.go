package locktest

import "github.com/picket-go/picket"

var inspecting = theme{"inspect", []check{
	{"a key that nobody used is free and has no token", 0, unusedIsFree},
	{"a held key shows holder, token, TTL and what remains", 0, heldShows},
	{"inspecting changes nothing", 0, inspectChangesNothing},
	{"an expired key is free and keeps its token", expiry, expiredShows},
	{"the queue is counted", queue, queueIsCounted},
}}

func unusedIsFree(e *env) {
	key := e.key()
	for range 2 {
		s := e.state(key, picket.StatusFree)
		if s.Token != 0 || s.Holder.ID != "" || s.Remaining != 0 || s.Waiters > 0 {
			e.Errorf("an unused key shows %+v", s.Status)
		}
	}
	e.granted(e.claim(key))
}

func heldShows(e *env) {
	l := e.granted(e.claim(e.key()))
	s := e.on(e.conf.New(e.T)).heldBy(l.Claim)
	if s.Token != l.Token {
		e.Errorf("token %d, want %d", s.Token, l.Token)
	}
	if h := l.Holder; s.Holder.Host != h.Host || s.Holder.PID != h.PID || s.Holder.Label != h.Label || s.Holder.Since.IsZero() {
		e.Errorf("holder %+v, want %+v", s.Holder, h)
	}
	if s.TTL != l.ttl() && !(e.conf.NoExpiry && s.TTL == 0) {
		e.Errorf("TTL %v, want %v", s.TTL, l.ttl())
	}
	e.remains(l, l.ttl())
}

func inspectChangesNothing(e *env) {
	l := e.granted(e.claim(e.key()))
	e.until(l.got.Add(e.conf.TTL / 2))
	for range 5 {
		e.heldBy(l.Claim)
	}
	e.remains(l, l.ttl()) // still counted from the grant
	e.release(l.Claim)
	for range 5 {
		e.state(l.Key, picket.StatusFree)
	}
	next := e.granted(e.claim(l.Key))
	if next.Token <= l.Token {
		e.Errorf("token %d follows %d", next.Token, l.Token)
	}
}

func expiredShows(e *env) {
	l := e.granted(e.brief(e.key()))
	e.ends(l)
	s := e.state(l.Key, picket.StatusFree)
	if s.Token != l.Token || s.Holder.ID != "" || s.Remaining != 0 {
		e.Errorf("an expired key shows %+v, want token %d only", s.Status, l.Token)
	}
}

func queueIsCounted(e *env) {
	holder, ws := e.line(3)
	for left := len(ws); left >= 0; left-- {
		if s := e.heldBy(holder); s.Waiters != left && s.Waiters != -1 {
			e.Errorf("%d waiters, want %d", s.Waiters, left)
		}
		if left > 0 {
			e.release(ws[left-1])
		}
	}
}
