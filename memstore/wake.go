package memstore

import (
	"context"

	"github.com/picket-go/picket"
)

type signal = struct{}

// Watch returns a channel that gets a value when the claim was handed the lock, and stop, which ends the listening. A claim has one watch: the last one asked for.
// A waiter that has stopped listening since its last poll is not handed the lock, as its process may be gone; its next poll makes it eligible again.
func (s *Store) Watch(ctx context.Context, c picket.Claim) (<-chan struct{}, func(), error) {
	if err := named(c); err != nil {
		return nil, nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now, err := s.ready(ctx)
	if err != nil {
		return nil, nil, err
	}
	// One place: a wake-up is a hint, and two hints say no more than one.
	ch := make(chan signal, 1)
	s.watches[c.ID] = ch
	if l := s.lock(c.Key, now); l != nil {
		if i := l.queue.find(c.ID); i >= 0 {
			l.queue.line[i].heard = true
		}
	}
	return ch, func() { s.unwatch(c.ID, ch) }, nil
}

func (s *Store) unwatch(id string, ch chan signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watches[id] == ch {
		delete(s.watches, id)
	}
}

func (s *Store) listens(id string) bool { return s.watches[id] != nil }

func (s *Store) wake(id string) {
	select {
	case s.watches[id] <- signal{}:
	default:
	}
}
