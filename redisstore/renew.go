package redisstore

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/picket-go/picket"
	"github.com/picket-go/picket/internal/bound"
)

const (
	renewClaims = 64 // in one call
	renewFlying = 8  // calls of all renewals under way, and half of the pool's connections at most: more would only stand in the way of the acquirers
	renewBound  = 500 * time.Millisecond
)

// Renew sets each claim's remaining time back to its TTL, if its lease goes on. Claims travel 64 to a call, and a few calls at once; report is called as answers come. A
// call without an answer is repeated in two halves: one slow claim, or one dead connection, costs the others little.
func (s *Store) Renew(ctx context.Context, cs []picket.Claim, report func(i int, err error)) {
	var sound []int
	for i, c := range cs {
		if err := grantable(c); err != nil {
			report(i, err)
			continue
		}
		sound = append(sound, i)
	}
	v := &renewal{store: s, claims: cs, report: report}
	v.moved = sync.OnceValue(func() bool { return s.origin.changed(ctx, s) })
	if len(sound) <= renewClaims {
		v.send(ctx, sound)
		return
	}
	batches := slices.Collect(slices.Chunk(sound, renewClaims))
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

// renewal is one call of Renew.
type renewal struct {
	store  *Store
	claims []picket.Claim
	report func(i int, err error)
	moved  func() bool // whether another server answers than before
}

// send renews the claims with these indexes.
func (v *renewal) send(ctx context.Context, which []int) {
	if len(which) == 0 {
		return
	}
	r, all, err := v.ask(ctx, which)
	switch {
	case err == nil:
		for n, i := range which {
			v.report(i, v.answered(ctx, r.subject, v.claims[i], all[n]))
		}
		v.store.origin.learn(ctx, v.store)
	case len(which) > 1 && ctx.Err() == nil && errors.Is(err, picket.ErrUnavailable):
		half := len(which) / 2
		v.send(ctx, which[:half])
		v.send(ctx, which[half:])
	default:
		for _, i := range which {
			v.report(i, err)
		}
	}
}

// ask makes one call when there is room for it. It leaves time for another one.
func (v *renewal) ask(ctx context.Context, which []int) (request, []answer, error) {
	keys, args := make([]string, len(which)), make([]any, 0, 2*len(which))
	for n, i := range which {
		keys[n] = v.store.record(v.claims[i].Key)
		args = append(args, v.claims[i].ID, millis(v.claims[i].TTL))
	}
	r := newRequest("renew", "", renewScript, keys, args...)
	r.claims = len(which)
	if len(which) == 1 {
		r.name = v.claims[which[0]].Key
	}
	select {
	case v.store.renewing <- signal{}:
		defer func() { <-v.store.renewing }()
	case <-ctx.Done():
		return r, nil, unsentError{ctx.Err()}
	}
	limit := v.store.patience() - callBound + renewBound
	if d, ok := ctx.Deadline(); ok && len(which) > 1 {
		limit = min(limit, time.Until(d)/2)
	}
	call := bound.New(ctx, limit)
	defer call.Stop()
	all, err := v.store.callReported(call, r)
	return r, all, err
}

// answered reads the answer to the renewal of c.
func (v *renewal) answered(ctx context.Context, s subject, c picket.Claim, a answer) error {
	s.name = c.Key
	switch a.word {
	case "done":
		return nil
	case "handoff":
		return v.store.confirm(ctx, c)
	case "lost":
		lost := a.lost(c)
		if lost.Reason == "" && v.moved() {
			lost.Reason = picket.ReasonFailover
		}
		return lost
	case "error":
		return a.failure(s)
	}
	return s.garbled(a)
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
