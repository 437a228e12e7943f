package memstore

import (
	"context"

	"github.com/picket-go/picket"
)

// Renew sets each claim's remaining time back to its TTL, if its lease goes on. It calls report in order, on the caller's goroutine and outside the store's mutex.
func (s *Store) Renew(ctx context.Context, cs []picket.Claim, report func(i int, err error)) {
	for i, c := range cs {
		report(i, s.renew(ctx, c))
	}
}

func (s *Store) renew(ctx context.Context, c picket.Claim) error {
	if err := grantable(c); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now, err := s.ready(ctx)
	if err != nil {
		return err
	}
	l, err := s.own(c, now)
	if err != nil {
		return err
	}
	if l.handed != nil {
		l.confirm(l.rec.claim, now)
	}
	l.rec.extend(c.TTL, now)
	return nil
}
