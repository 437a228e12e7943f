package redisstore

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/picket-go/picket"
	"github.com/picket-go/picket/internal/bound"
)

const (
	renewClaims = 64 // in one call
	renewFlying = 8  // calls of all renewals under way, and half of the pool's connections at most: more would only stand in the way of the acquirers
	renewBound  = 500 * time.Millisecond
)

// Renew sets each claim's remaining time back to its TTL, if its lease goes on. Claims travel 64 to a call, and a few calls at once to each server; report is called as
// answers come. A call without an answer is repeated in two halves: one slow claim, or one dead connection, costs the others little.
func (s *Store) Renew(ctx context.Context, cs []picket.Claim, report func(i int, err error)) {
	served := map[*node][]int{}
	for i, c := range cs {
		n, err := s.home, grantable(c)
		if err == nil && n == nil {
			if n, err = s.cluster.master(ctx, s.record(c.Key)); err != nil {
				err = s.failed(ctx, subject{"renew", c.Key}, err)
			}
		}
		if err != nil {
			report(i, err)
			continue
		}
		served[n] = append(served[n], i)
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	for n, which := range served {
		if s.cluster != nil {
			n = s.cluster.guide(n)
		}
		v := newRenewal(ctx, n, cs, report)
		if len(served) == 1 {
			v.all(ctx, which)
			return
		}
		wg.Go(func() { v.all(ctx, which) }) // a node that is silent must not delay the leases on the others
	}
}

// renewal is the part of one call of Renew that one server answers.
type renewal struct {
	node   *node
	claims []picket.Claim
	report func(i int, err error)
	moved  func() bool // whether another server answers than before
	asking bool        // the slots of these claims are being moved to the node
	times  int         // it was redirected
}

func newRenewal(ctx context.Context, n *node, cs []picket.Claim, report func(i int, err error)) *renewal {
	return &renewal{node: n, claims: cs, report: report, moved: sync.OnceValue(func() bool { return n.failedOver(ctx) })}
}

// all renews the claims with these indexes, a few calls at once.
func (v *renewal) all(ctx context.Context, which []int) {
	if len(which) <= renewClaims {
		v.send(ctx, which)
		return
	}
	batches := slices.Collect(slices.Chunk(which, renewClaims))
	next := make(chan []int, len(batches))
	for _, b := range batches {
		next <- b
	}
	close(next)
	var wg sync.WaitGroup
	for range min(renewFlying, len(batches)) {
		wg.Go(func() {
			for b := range next {
				v.send(ctx, b)
			}
		})
	}
	wg.Wait()
}

// send renews claims in one call, and those that had no answer again.
func (v *renewal) send(ctx context.Context, which []int) {
	if len(which) == 0 {
		return
	}
	var silent []int
	redirected := map[redirect][]int{}
	answered := false
	for n, o := range v.ask(ctx, which) {
		i := which[n]
		h, moves := errors.AsType[*redirect](o.err)
		switch {
		case moves:
			to := *h
			to.text = ""
			redirected[to] = append(redirected[to], i)
		case o.err == nil:
			answered = true
			v.report(i, v.answered(ctx, v.claims[i], o.answer))
		case len(which) > 1 && ctx.Err() == nil && (o.apart || errors.Is(o.err, picket.ErrUnavailable) && !o.replied):
			silent = append(silent, i)
		default:
			v.report(i, o.err)
		}
	}
	for h, some := range redirected {
		v.redirect(ctx, h, some)
	}
	if answered {
		v.node.origin.learn(ctx, v.node)
	}
	half := (len(silent) + 1) / 2
	v.send(ctx, silent[:half])
	v.send(ctx, silent[half:])
}

// redirect renews claims where the node says that they are now.
func (v *renewal) redirect(ctx context.Context, h redirect, which []int) {
	n, err := v.node, error(nil)
	switch {
	case v.times == mostRedirects:
		err = errSplit
	case h.addr != "":
		n, err = v.node.store.cluster.next(ctx, v.node, &h, v.node.store.record(v.claims[which[0]].Key))
	}
	if err != nil {
		for _, i := range which {
			v.report(i, v.node.store.failed(ctx, subject{"renew", v.claims[i].Key}, err))
		}
		return
	}
	onward := newRenewal(ctx, n, v.claims, v.report)
	onward.times, onward.asking = v.times+1, !h.moved
	onward.send(ctx, which)
}

// renewed is what became of one claim.
type renewed struct {
	answer  answer
	err     error
	replied bool // the server said no, and would again
	apart   bool // the server said no to all claims of the call because of one
}

// ask makes one call when there is room for it. It leaves time for another one.
func (v *renewal) ask(ctx context.Context, which []int) []renewed {
	all := make([]renewed, len(which))
	s := v.node.store
	fail := func(err error) []renewed {
		about := subject{op: "renew"}
		if len(which) == 1 {
			about.name = v.claims[which[0]].Key
		}
		err = s.failed(ctx, about, err)
		for i := range all {
			all[i].err = err
		}
		return all
	}
	select {
	case v.node.renewing <- signal{}:
		defer func() { <-v.node.renewing }()
	case <-ctx.Done():
		return fail(unsentError{ctx.Err()})
	}
	limit := s.patience() - callBound + renewBound
	if d, ok := ctx.Deadline(); ok && len(which) > 1 {
		limit = min(limit, time.Until(d)/2)
	}
	call := bound.New(ctx, limit)
	defer call.Stop()
	rs := v.requests(which)
	out, err := send(call, s, s.patience(), func(ctx context.Context) ([]outcome, error) { return v.node.renew(ctx, rs, v.asking), nil })
	if err != nil {
		return fail(err)
	}
	for k, n := 0, 0; k < len(out); k++ {
		some, err := out[k].answers(rs[k])
		if err != nil {
			about := rs[k].subject
			reply, ok := errors.AsType[redis.Error](err)
			for range rs[k].claims {
				all[n] = renewed{err: s.failed(call, about, err), replied: ok && reply != redis.Nil && s.cluster != nil, apart: rs[k].claims > 1 && forbidden(err)}
				n++
			}
			continue
		}
		for _, a := range some {
			all[n].answer = a
			n++
		}
	}
	return all
}

// requests are those for these claims.
func (v *renewal) requests(which []int) []request {
	var rs []request
	for some := range slices.Chunk(which, v.node.store.together(len(which))) {
		keys, args := make([]string, len(some)), make([]any, 0, 2*len(some))
		for n, i := range some {
			keys[n] = v.node.store.record(v.claims[i].Key)
			args = append(args, v.claims[i].ID, millis(v.claims[i].TTL))
		}
		r := newRequest("renew", "", renewScript, keys, args...)
		if r.claims = len(some); r.claims == 1 {
			r.name = v.claims[some[0]].Key
		}
		rs = append(rs, r)
	}
	return rs
}

// renew sends requests to renew. Where it was asked for, it then asks the replicas.
func (n *node) renew(ctx context.Context, rs []request, asking bool) []outcome {
	set := n.store.set
	if !n.store.durable() || set.report == nil {
		return n.deliver(ctx, n.client, rs, asking)
	}
	conn := n.patient.Conn()
	defer conn.Close() //nolint:errcheck // gives it back to the pool
	out := n.deliver(ctx, conn, rs, asking)
	if slices.ContainsFunc(out, func(o outcome) bool { return o.err == nil }) {
		if short, err := n.store.wait(ctx, conn); err == nil && short != nil {
			set.report(short)
		}
	}
	return out
}

// answered reads the answer to the renewal of c.
func (v *renewal) answered(ctx context.Context, c picket.Claim, a answer) error {
	about := subject{"renew", c.Key}
	switch a.word {
	case "done":
		return nil
	case "handoff":
		return v.node.store.confirm(ctx, c)
	case "lost":
		lost := a.lost(c)
		if lost.Reason == "" && v.moved() {
			lost.Reason = picket.ReasonFailover
		}
		return lost
	case "error":
		return a.failure(about)
	}
	return about.garbled(a)
}

// confirm takes a lock that was handed over by a renewal: the renewal's script may not touch the queue that the hand-off stands in.
func (s *Store) confirm(ctx context.Context, c picket.Claim) error {
	c.Queue = false
	_, err := s.Acquire(ctx, c)
	if errors.Is(err, picket.ErrBusy) {
		return &picket.LostError{Key: c.Key, Reason: picket.ReasonExpired, At: time.Now()}
	}
	return err
}
