package picket

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/picket-go/picket/internal/bound"
	"github.com/picket-go/picket/internal/lease"
)

// renewal is one lease's share of a batch.
type renewal struct {
	lease    *Lease
	claim    Claim
	epoch    int
	failures int
	deadline lease.Instant
	answered bool
}

// tick does what is due for l at now; it returns a renewal if that is due.
func (l *Lease) tick(now lease.Instant) (n *renewal, after later) {
	l.mu.Lock()
	defer l.mu.Unlock()
	after = l.beside(l.advance(now))
	if l.state >= StateEnding || l.release.begun || l.renewing || now < l.renewAt-l.renewSlack() {
		return nil, after
	}
	l.renewing = true
	return l.newRenewal(now), after
}

// newRenewal is called with mu held.
func (l *Lease) newRenewal(now lease.Instant) *renewal {
	n := &renewal{lease: l, claim: *l.claim, epoch: l.epoch, failures: l.failures, deadline: l.window.Deadline}
	n.claim.TTL = l.terms.AskTTL(now)
	return n
}

// renewSlack is how much earlier than due a renewal may go with others: they then stay together. A repeated one must not, it would be due at once.
func (l *Lease) renewSlack() time.Duration {
	if l.failures > 0 {
		return 0
	}
	return l.terms.TTL / 12
}

// nextDue is when something happens to l if nothing else does.
func (l *Lease) nextDue() (due lease.Instant, slack time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case !l.live():
		return lease.Forever, 0
	case l.state == StateEnding:
		return l.window.Deadline, 0
	case l.renewing || l.window.End <= l.renewAt:
		return l.window.End, 0
	}
	return l.renewAt, l.renewSlack()
}

// batch is one call of Store.Renew.
type batch struct {
	renewals []*renewal
	first    lease.Instant // the earliest deadline in it
}

// batches sorts by deadline and cuts: renewals that went unanswered travel in smaller and smaller company, so that one bad neighbour costs the others little.
func batches(all []*renewal) (bs []*batch) {
	slices.SortFunc(all, func(a, b *renewal) int {
		return cmp.Or(cmp.Compare(a.failures, b.failures), cmp.Compare(a.deadline, b.deadline))
	})
	for len(all) > 0 {
		size := max(1, batchSize>>min(2*all[0].failures, 16))
		n := 1
		for n < len(all) && n < size && all[n].failures == all[0].failures {
			n++
		}
		bs = append(bs, &batch{renewals: all[:n:n], first: all[0].deadline})
		all = all[n:]
	}
	return bs
}

// send asks the store once and tells each lease its answer as soon as it is known.
func (b *batch) send(c *core) {
	claims := make([]Claim, len(b.renewals))
	for i, n := range b.renewals {
		claims[i] = n.claim
	}
	e := RenewEvent{Leases: len(claims)}
	var (
		mu     sync.Mutex
		closed bool // a report after the return of Renew counts for nothing
	)
	t0 := c.clock.now()
	report := func(i int, err error) {
		mu.Lock()
		ours := !closed && i >= 0 && i < len(claims) && !b.renewals[i].answered
		if ours {
			b.renewals[i].answered = true
		}
		mu.Unlock()
		if !ours {
			return
		}
		n := b.renewals[i]
		needed := n.lease.renewed(n, t0, err)
		mu.Lock()
		defer mu.Unlock()
		e.count(err, needed)
	}
	call := c.detached(bound.None(), min(max((b.first-t0)/3, 10*time.Millisecond), batchBound))
	c.store.Renew(call, claims, report)
	call.Stop()
	mu.Lock()
	closed = true
	mu.Unlock()
	for _, n := range b.renewals {
		if !n.answered {
			e.count(errNoAnswer, n.lease.renewed(n, t0, errNoAnswer))
		}
	}
	e.Took = c.clock.now() - t0
	b.tell(c, e)
}

// tell gives the event to each observer once, however many of the leases share it.
func (b *batch) tell(c *core, e RenewEvent) {
	if e.Leases == 0 {
		return
	}
	now := c.clock.now()
	e.Headroom = NoExpiry
	told := map[*Observer]bool{}
	for _, n := range b.renewals {
		e.Headroom = min(e.Headroom, n.lease.headroom(now))
	}
	for _, n := range b.renewals {
		for _, o := range n.lease.set.observers {
			if o.RenewEnd != nil && !told[o] {
				told[o] = true
				o.RenewEnd(e)
			}
		}
	}
}
