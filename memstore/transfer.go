package memstore

import (
	"context"
	"fmt"

	"github.com/picket-go/picket"
)

// Transfer releases from and acquires to, both on the same key, in one act. With to.Queue false nobody can come between; else the queue decides who is next.
// A *picket.LostError says that from had no record: then nothing was done for to.
func (s *Store) Transfer(ctx context.Context, from, to picket.Claim) (picket.Grant, error) {
	if err := transferable(from, to); err != nil {
		return picket.Grant{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now, err := s.ready(ctx)
	if err != nil {
		return picket.Grant{}, err
	}
	if err := s.undone(to, now); err != nil {
		return picket.Grant{}, err
	}
	if from.Doubt {
		s.tombs.put(from.ID, now.Add(memory), now)
	}
	l := s.lock(from.Key, now)
	if l == nil {
		return picket.Grant{}, s.lost(from, nil, now)
	}
	if !l.rec.is(from.ID) {
		l.queue.leave(from.ID) // given up, it must not be served
		return picket.Grant{}, s.lost(from, l.rec, now)
	}
	l.end(from, now)
	if l.rec == nil && !to.Queue {
		// Past the waiters: they are served when the Locker's local turn is over.
		l.queue.leave(to.ID)
		s.grant(l, to, now)
	}
	return s.acquire(to, now)
}

func transferable(from, to picket.Claim) error {
	if err := named(from); err != nil {
		return err
	}
	if err := grantable(to); err != nil {
		return err
	}
	if from.Key != to.Key || from.ID == to.ID {
		return fmt.Errorf("%w: a transfer from a claim on %q to one on %q: want two claims on one key", picket.ErrInvalid, from.Key, to.Key)
	}
	return nil
}
