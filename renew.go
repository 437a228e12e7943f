package picket

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/picket-go/picket/internal/lease"
)

// Renew sets the remaining time to ttl, and later renewals too; ttl 0 means the TTL it has. It never revives a lease that is over.
// It repeats for 3 s at most while the store does not answer, then it is ErrUnavailable and the lease is as it was.
func (l *Lease) Renew(ctx context.Context, ttl time.Duration) error {
	terms, err := l.termsFor(ttl)
	if err != nil {
		return err
	}
	if err := l.Check(); err != nil {
		return err
	}
	c := l.core
	until := min(c.clock.now()+tryBound, l.windowEnd())
	for n := 0; ; n++ {
		t0 := c.clock.now()
		claim := l.claimFor(terms, t0)
		err := c.renewOne(ctx, claim, min(until-t0, l.set.attemptBound()))
		pause := retryAfter(n)
		switch {
		case err == nil:
			return l.retime(t0, terms, claim.TTL)
		case errors.Is(err, ErrLost):
			return l.denyBy(err)
		case definite(err), ctx.Err() != nil, c.stopping(), until-c.clock.now() <= pause:
			return failed(ctx, "renew", l.Key(), err)
		}
		c.pause(ctx, pause)
	}
}

// termsFor are the lease's terms with another TTL.
func (l *Lease) termsFor(ttl time.Duration) (lease.Terms, error) {
	terms := l.currentTerms()
	if ttl == 0 {
		return terms, nil
	}
	if err := checkTTL(ttl); err != nil {
		return terms, err
	}
	terms.TTL = ttl
	if hold := l.set.maxHold; hold > 0 {
		terms.TTL = min(ttl, hold)
	}
	if err := terms.Margins.Check(terms.TTL); err != nil {
		return terms, invalid("renew %q: %v", l.Key(), err)
	}
	return terms, nil
}

func (l *Lease) currentTerms() lease.Terms {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.terms
}

// claimFor is the claim with the TTL to ask for at now under terms.
func (l *Lease) claimFor(terms lease.Terms, now lease.Instant) Claim {
	l.mu.Lock()
	defer l.mu.Unlock()
	claim := *l.claim
	claim.TTL = terms.AskTTL(now)
	return claim
}

func (l *Lease) windowEnd() lease.Instant {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.window.End
}

var errNoAnswer = errors.New("no answer")

// renewOne renews one claim; errNoAnswer if the store did not report on it.
func (c *core) renewOne(ctx context.Context, claim Claim, limit time.Duration) error {
	var mu sync.Mutex
	answer := errNoAnswer
	call := c.bounded(ctx, limit)
	defer call.Stop()
	c.store.Renew(call, []Claim{claim}, func(i int, err error) {
		mu.Lock()
		defer mu.Unlock()
		if i == 0 {
			answer = err
		}
	})
	mu.Lock()
	defer mu.Unlock()
	return answer
}

// retime takes a success of Renew that left at t0. A shorter TTL moves the deadline back: the caller asked for it, the server never shortens.
func (l *Lease) retime(t0 lease.Instant, terms lease.Terms, asked time.Duration) error {
	now := l.core.clock.now()
	l.mu.Lock()
	after := l.advance(now)
	if l.live() && l.state < StateEnding {
		l.terms, l.claim.TTL = terms, terms.TTL
		l.epoch++
		after = append(after, l.extend(t0, asked, true))
	}
	l.mu.Unlock()
	l.core.renewer.fix(l)
	after.run()
	return l.Check()
}

// denyBy takes the store's word that the lease is not ours, and returns the *LostError.
func (l *Lease) denyBy(err error) error {
	now := l.core.clock.now()
	l.mu.Lock()
	after := l.lose(err, now)
	l.mu.Unlock()
	after.run()
	return l.Check()
}

// Confirm asks the store and returns its remaining time for this lease; a *LostError or ErrReleased if it is over, ErrUnavailable after 3 s without answer.
func (l *Lease) Confirm(ctx context.Context) (time.Duration, error) {
	if err := l.lostOrReleased(); err != nil {
		return 0, err
	}
	call := l.core.bounded(ctx, tryBound)
	defer call.Stop()
	st, err := l.core.store.Inspect(call, l.Key())
	if err != nil {
		return 0, failed(ctx, "confirm", l.Key(), err)
	}
	if st.State == StatusHeld && st.Holder.ID == l.claim.ID {
		return st.Remaining, l.lostOrReleased() // it may have ended meanwhile
	}
	// Only the answer to a renewal says why; it cannot bring the record back.
	claim := l.claimFor(l.currentTerms(), l.core.clock.now())
	switch err := l.core.renewOne(call, claim, tryBound); {
	case err == nil:
		return claim.TTL, nil
	case errors.Is(err, ErrLost):
		return 0, l.denyBy(err)
	default:
		return 0, failed(ctx, "confirm", l.Key(), err)
	}
}

// Reissue mints a token above the given one for this lease and returns it; ErrUnsupported where the store cannot, ErrRefused where it must not, ErrUncertain after 3 s without
// answer: then Token is as it was, and the store's may be larger.
func (l *Lease) Reissue(ctx context.Context, above int64) (int64, error) {
	if err := l.Check(); err != nil {
		return 0, err
	}
	store, ok := l.core.store.(Reissuer)
	if !ok {
		return 0, explain(fmt.Sprintf("picket: reissue %q: not supported by store %T", l.Key(), l.core.store), ErrUnsupported)
	}
	call := l.core.bounded(ctx, tryBound)
	defer call.Stop()
	grant, err := store.Reissue(call, l.claimFor(l.currentTerms(), l.core.clock.now()), above)
	switch {
	case err == nil:
		for old := l.Token(); old < grant.Token && !l.token.CompareAndSwap(old, grant.Token); old = l.Token() {
			continue // another Reissue at the same time; the record has the larger one
		}
		return grant.Token, nil
	case errors.Is(err, ErrLost):
		return 0, l.denyBy(err)
	case definite(err):
		return 0, named("reissue", l.Key(), err)
	}
	return 0, silence(ctx, fmt.Sprintf("picket: reissue %q: outcome unknown", l.Key()), ErrUncertain, err)
}
