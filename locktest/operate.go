package locktest

import (
	"errors"
	"math"
	"strings"
	"time"

	"github.com/picket-go/picket"
)

// What operators do: list, break, reissue. Each is optional for a store.
var operating = theme{"operate", []check{
	{"listing yields each held key with the prefix once", 0, listHeld},
	{"listing may be left early", 0, listLeft},
	{"a break with another token leaves the lease alone", 0, breakOtherToken},
	{"a broken lease is not renewed, for the reason broken", 0, breakRefusesRenewal},
	{"a broken key is given on when its time is over", expiry, brokenKeyIsGivenOn},
	{"a reissue mints a larger token for the claim that holds", 0, reissueMints},
	{"a reissue is refused to others", 0, reissueOwner},
	{"a reissue is refused out of bounds", 0, reissueBounds},
}}

func (e *env) lister() picket.Lister {
	l, ok := e.store.(picket.Lister)
	if !ok {
		e.Skip("the store is no picket.Lister")
	}
	return l
}

func listHeld(e *env) {
	lister := e.lister()
	held := map[string]lease{}
	for _, suffix := range []string{"/a", "/b", "/a*", "/a?[x]\\", "/ü"} {
		l := e.granted(e.claim(e.base + suffix))
		held[l.Key] = l
	}
	e.granted(e.claim("not-" + e.base))
	free := e.granted(e.claim(e.base + "/free")).Claim
	e.release(free)

	for _, prefix := range []string{e.base + "/", e.base + "/a", e.base + "/a*"} {
		seen := map[string]bool{}
		for s, err := range lister.List(e.Context(), prefix) {
			if err != nil {
				e.Fatalf("List(%q) = %v", prefix, err)
			}
			if s.State == picket.StatusFree && s.Key == free.Key {
				continue
			}
			l, ok := held[s.Key]
			if !ok || !strings.HasPrefix(s.Key, prefix) || seen[s.Key] {
				e.Fatalf("List(%q) yields %q, seen before: %v", prefix, s.Key, seen[s.Key])
			}
			seen[s.Key] = true
			if s.State != picket.StatusHeld || s.Token != l.Token || s.Holder.ID != l.ID {
				e.Errorf("List(%q) yields %+v, want token %d of %q", prefix, s, l.Token, l.ID)
			}
		}
		for key := range held {
			if strings.HasPrefix(key, prefix) && !seen[key] {
				e.Errorf("List(%q) does not yield %q", prefix, key)
			}
		}
	}
}

func listLeft(e *env) {
	lister := e.lister()
	for _, suffix := range []string{"/a", "/b", "/c"} {
		e.granted(e.claim(e.base + suffix))
	}
	n := 0
	for _, err := range lister.List(e.Context(), e.base+"/") {
		if err != nil {
			e.Fatalf("List = %v", err)
		}
		n++
		break
	}
	if n != 1 {
		e.Errorf("List yielded nothing")
	}
}

// brk calls the store's Breaker; the check is skipped if there is none.
func (e *env) brk(key string, token int64) error {
	e.Helper()
	b, ok := e.store.(picket.Breaker)
	if !ok {
		e.Skip("the store is no picket.Breaker")
	}
	ctx, cancel := e.bounded()
	defer cancel()
	return b.Break(ctx, key, token)
}

func breakOtherToken(e *env) {
	l := e.granted(e.claim(e.key()))
	for _, token := range []int64{l.Token - 1, l.Token + 1, 0} {
		if err := e.brk(l.Key, token); err == nil {
			e.Errorf("Break with token %d of a lease with %d = nil", token, l.Token)
		}
	}
	e.stillHolds(l.Claim)
	e.release(l.Claim)
	if err := e.brk(l.Key, l.Token); err == nil {
		e.Errorf("Break of a free key = nil")
	}
}

func breakRefusesRenewal(e *env) {
	l := e.granted(e.claim(e.key()))
	if err := e.brk(l.Key, l.Token); err != nil {
		e.Fatalf("Break = %v", err)
	}
	if lost := e.lost("Renew of a broken lease", l.Claim, e.renew(l.Claim)); lost.Reason != picket.ReasonBroken {
		e.Errorf("lost by %q, want %q", lost.Reason, picket.ReasonBroken)
	}
	e.busy(e.claim(l.Key)) // the holder may still work: its time is not over
	e.state(l.Key, picket.StatusCooling)
}

func brokenKeyIsGivenOn(e *env) {
	l := e.granted(e.brief(e.key()))
	if err := e.brk(l.Key, l.Token); err != nil {
		if time.Since(l.sent) >= l.ttl()-e.early() {
			e.Skip("the machine stalled for a TTL")
		}
		e.Fatalf("Break = %v", err)
	}
	if next := e.takenOver(l, l.ttl()); next.Token <= l.Token {
		e.Errorf("token %d follows %d", next.Token, l.Token)
	}
}

// reissue calls the store's Reissuer; the check is skipped if there is none or it says so.
func (e *env) reissue(c picket.Claim, above int64) (lease, error) {
	e.Helper()
	r, ok := e.store.(picket.Reissuer)
	if !ok {
		e.Skip("the store is no picket.Reissuer")
	}
	ctx, cancel := e.bounded()
	defer cancel()
	l := lease{Claim: c, sent: time.Now()}
	g, err := r.Reissue(ctx, c, above)
	l.Grant, l.got = g, time.Now()
	if errors.Is(err, picket.ErrUnsupported) {
		e.Skip("the store does not reissue")
	}
	return l, err
}

func reissueMints(e *env) {
	l := e.granted(e.claim(e.key()))
	above := l.Token + time.Hour.Microseconds()
	r, err := e.reissue(l.Claim, above)
	if err != nil || r.Token <= above {
		e.Fatalf("Reissue above %d = %d, %v", above, r.Token, err)
	}
	if s := e.heldBy(l.Claim); s.Token != r.Token {
		e.Errorf("Inspect says token %d, want %d", s.Token, r.Token)
	}
	if again := e.granted(l.Claim); again.Token != r.Token {
		e.Errorf("the same claim again has token %d, want %d", again.Token, r.Token)
	}
	e.release(l.Claim)
	if next := e.granted(e.claim(l.Key)); next.Token <= r.Token {
		e.Errorf("token %d follows %d", next.Token, r.Token)
	}
}

func reissueOwner(e *env) {
	l := e.granted(e.claim(e.key()))
	other := e.claim(l.Key)
	_, err := e.reissue(other, l.Token+time.Hour.Microseconds())
	e.lost("Reissue for another claim", other, err)
	e.stillHolds(l.Claim)
	if s := e.heldBy(l.Claim); s.Token != l.Token {
		e.Errorf("Inspect says token %d, want %d", s.Token, l.Token)
	}
}

// reissueBounds: below the present somebody was granted after us; near 2^53 two grants would share a token (DESIGN 3.7).
func reissueBounds(e *env) {
	l := e.granted(e.claim(e.key()))
	for _, above := range []int64{0, l.Token - 1, 1 << 53, 1<<53 - 1, math.MaxInt64} {
		if r, err := e.reissue(l.Claim, above); err == nil {
			e.Errorf("Reissue above %d = %d, want a refusal", above, r.Token)
		}
	}
	if s := e.heldBy(l.Claim); s.Token != l.Token {
		e.Errorf("Inspect says token %d, want %d", s.Token, l.Token)
	}
}
