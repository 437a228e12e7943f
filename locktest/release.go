package locktest

import "github.com/picket-go/picket"

var releasing = theme{"release", []check{
	{"a released key is free at once", 0, releaseFrees},
	{"another's record is left alone and gives a LostError", 0, releaseOfAnother},
	{"a second release gives a LostError", 0, releaseTwice},
	{"a release after expiry gives a LostError and leaves the next lease alone", expiry, releaseAfterExpiry},
	{"a claim with neither record nor place gives a LostError", 0, releaseOfNothing},
	{"any client can release a claim by its id", 0, releaseElsewhere},
}}

func releaseFrees(e *env) {
	l := e.granted(e.claim(e.key()))
	e.release(l.Claim)
	s := e.state(l.Key, picket.StatusFree)
	if s.Holder.ID != "" || s.Remaining != 0 {
		e.Errorf("a free key has holder %q for %v", s.Holder.ID, s.Remaining)
	}
	e.granted(e.claim(l.Key))
}

// releaseOfAnother covers L5, GL-11 and GL-12.
func releaseOfAnother(e *env) {
	l := e.granted(e.claim(e.key()))
	for _, doubt := range []bool{false, true} {
		other := e.claim(l.Key)
		other.Doubt = doubt
		e.lost("Release of another's record", other, e.tryRelease(other))
		e.stillHolds(l.Claim)
	}
}

// releaseTwice covers L4, GL-04 and GL-17.
func releaseTwice(e *env) {
	first := e.granted(e.claim(e.key())).Claim
	e.release(first)
	e.lost("second Release", first, e.tryRelease(first))
	next := e.granted(e.claim(first.Key)).Claim
	e.lost("Release under the next lease", first, e.tryRelease(first))
	e.stillHolds(next)
}

// releaseAfterExpiry covers L5 and GL-18.
func releaseAfterExpiry(e *env) {
	l := e.granted(e.brief(e.key()))
	e.ends(l)
	e.lost("Release after expiry", l.Claim, e.tryRelease(l.Claim))

	l = e.granted(e.brief(e.key()))
	next := e.eventually(e.claim(l.Key), l.ttl()+late)
	e.lost("Release after the next grant", l.Claim, e.tryRelease(l.Claim))
	e.stillHolds(next.Claim)
}

func releaseOfNothing(e *env) {
	c := e.claim(e.key())
	e.lost("Release of a claim that never was", c, e.tryRelease(c))
	e.state(c.Key, picket.StatusFree)
}

// releaseElsewhere covers GL-12.
func releaseElsewhere(e *env) {
	l := e.granted(e.claim(e.key()))
	e.on(e.conf.New(e.T)).release(l.Claim)
	e.state(l.Key, picket.StatusFree)
}
