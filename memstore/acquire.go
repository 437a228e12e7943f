package memstore

import (
	"context"
	"fmt"
	"time"

	"github.com/picket-go/picket"
)

// Acquire makes one attempt. It returns a *picket.BusyError while another claim holds the key, is next in its queue, or it cools down; ErrRefused if the claim was undone;
// ErrUnsupported for a claim with a weight; ErrInvalid for one without id, key or a TTL of at most 365 days.
func (s *Store) Acquire(ctx context.Context, c picket.Claim) (picket.Grant, error) {
	if err := grantable(c); err != nil {
		return picket.Grant{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now, err := s.ready(ctx)
	if err != nil {
		return picket.Grant{}, err
	}
	if err := s.undone(c, now); err != nil {
		return picket.Grant{}, err
	}
	return s.acquire(c, now)
}

func (s *Store) acquire(c picket.Claim, now time.Time) (picket.Grant, error) {
	l := s.lock(c.Key, now)
	if l == nil {
		l = new(lock)
		s.locks.put(c.Key, l, now)
	}
	switch {
	case l.rec.is(c.ID) && l.rec.live(now):
		l.confirm(c, now)
	case c.Queue && (l.rec != nil || len(l.queue.line) > 0):
		l.queue.poll(c, s.listens(c.ID), now)
	default:
		l.queue.leave(c.ID)
	}
	s.handOver(l, c.ID, now)
	if l.rec == nil {
		s.grant(l, c, now)
	}
	if l.rec.is(c.ID) && l.rec.live(now) {
		return picket.Grant{Token: l.rec.token, TTL: c.TTL, Waiters: l.queue.ahead("", now)}, nil
	}
	return picket.Grant{}, &picket.BusyError{
		Key:       c.Key,
		Holder:    l.rec.holder(),
		Remaining: l.rec.free.Sub(now),
		Waiters:   l.queue.ahead(c.ID, now),
	}
}

// undone refuses a claim that was released in doubt: this is its original request, late.
func (s *Store) undone(c picket.Claim, now time.Time) error {
	until, ok := s.tombs.get(c.ID, now)
	if !ok {
		return nil
	}
	return fmt.Errorf("%w: this claim on %q was undone and is refused for %s more: draw a new id",
		picket.ErrRefused, c.Key, until.Sub(now).Round(time.Millisecond))
}
