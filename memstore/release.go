package memstore

import (
	"context"

	"github.com/picket-go/picket"
)

// Release ends the lease of c, or keeps the key until the MinHold of c is over, leaves the queue, and hands a free key to the first live waiter. With c.Doubt it also
// refuses the claim for the next 10 minutes, even if it returns a *picket.LostError, because the claim has neither a record nor a place in the queue.
func (s *Store) Release(ctx context.Context, c picket.Claim) error {
	if err := named(c); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now, err := s.ready(ctx)
	if err != nil {
		return err
	}
	if c.Doubt {
		s.tombs.put(c.ID, now.Add(memory), now)
	}
	l := s.lock(c.Key, now)
	if l == nil {
		return s.lost(c, nil, now)
	}
	waited := l.queue.leave(c.ID)
	held := l.rec.is(c.ID)
	if held {
		l.end(c, now)
	}
	// Before the hand-over: what it leaves there has not taken anything from c.
	if !held && !waited {
		err = s.lost(c, l.rec, now)
	}
	s.passOn(c.Key, l, now)
	return err
}
