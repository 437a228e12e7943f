package locktest

import (
	"sync"

	"github.com/picket-go/picket"
)

// DESIGN 3.7.
var tokens = theme{"token", []check{
	{"tokens rise with every release", 0, tokensRiseOverRelease},
	{"tokens rise with every expiry", expiry, tokensRiseOverExpiry},
	{"tokens rise with every undo", 0, tokensRiseOverUndo},
	{"tokens rise with every hand-off", queue, tokensRiseOverHandOff},
	{"tokens of many keys rise each by itself", 0, tokensRisePerKey},
	{"the last token stays when the key is free", 0, tokenStays},
}}

// rises remembers the largest token of a key.
type rises int64

func (r *rises) next(e *env, l lease) {
	e.Helper()
	if l.Token <= int64(*r) {
		e.Fatalf("token %d of %q follows %d, want a larger one", l.Token, l.Key, int64(*r))
	}
	*r = rises(l.Token)
}

func tokensRiseOverRelease(e *env) {
	var last rises
	key := e.key()
	for i := range 30 {
		l := e.granted(e.claim(key))
		last.next(e, l)
		if i%2 == 0 { // a retry is no new grant
			if again := e.granted(l.Claim); again.Token != l.Token {
				e.Fatalf("the same claim again has token %d, want %d", again.Token, l.Token)
			}
		}
		e.release(l.Claim)
	}
}

func tokensRiseOverExpiry(e *env) {
	var last rises
	key := e.key()
	for range 3 {
		last.next(e, e.eventually(e.brief(key), e.conf.TTL+2*late))
	}
}

func tokensRiseOverUndo(e *env) {
	var last rises
	key := e.key()
	for range 10 {
		l := e.granted(e.claim(key))
		last.next(e, l)
		l.Doubt = true
		e.release(l.Claim)
	}
}

func tokensRiseOverHandOff(e *env) {
	var last rises
	l := e.granted(e.claim(e.key()))
	for range 10 {
		last.next(e, l)
		w := e.waiter(l.Key)
		e.busy(w)
		e.release(l.Claim)
		l = e.granted(w)
	}
}

func tokensRisePerKey(e *env) {
	var keys [20]string
	for i := range keys {
		keys[i] = e.key()
	}
	var wg sync.WaitGroup
	for _, key := range keys {
		wg.Go(func() {
			var last int64
			for range 5 {
				c := e.claim(key)
				l, err := e.acquire(c)
				if err != nil || l.Token <= last {
					e.Errorf("Acquire(%q) = token %d, %v, want more than %d", key, l.Token, err, last)
					return
				}
				last = l.Token
				if err := e.tryRelease(c); err != nil {
					e.Errorf("Release(%q) = %v", key, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func tokenStays(e *env) {
	l := e.granted(e.claim(e.key()))
	if s := e.heldBy(l.Claim); s.Token != l.Token {
		e.Errorf("Inspect says token %d, want %d", s.Token, l.Token)
	}
	e.release(l.Claim)
	for range 2 {
		if s := e.state(l.Key, picket.StatusFree); s.Token != l.Token {
			e.Errorf("Inspect of the free key says token %d, want %d", s.Token, l.Token)
		}
	}
}
