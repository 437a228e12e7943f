package memstore

import (
	"context"
	"fmt"
	"time"

	"github.com/picket-go/picket"
)

// loss is why a claim's lease was ended by somebody else.
type loss struct {
	reason picket.Reason
	token  int64
	until  time.Time // when it may be forgotten
}

// Lose ends key's lease as if it had expired or been deleted, and hands the key to the first live waiter. The next renewal or release of the holder gets a
// *picket.LostError with reason; with ReasonBroken the lease is broken as by Break instead. Losing a free key does nothing.
func (s *Store) Lose(key string, reason picket.Reason) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	l := s.lock(key, now)
	if l == nil || l.rec == nil {
		return
	}
	s.lose(l, reason, now)
	if reason != picket.ReasonBroken {
		l.clear()
		s.passOn(key, l, now)
	}
}

// Break marks the lease with this token as broken: it cannot be renewed, and the key is given on when its remaining time is over, so that the holder is not surprised.
// It returns ErrRefused if the key is free, or its token is another one by now.
func (s *Store) Break(ctx context.Context, key string, token int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, err := s.ready(ctx)
	if err != nil {
		return err
	}
	l := s.lock(key, now)
	switch {
	case l == nil || l.rec == nil:
		return fmt.Errorf("%w: nothing to break, %q is free", picket.ErrRefused, key)
	case l.rec.token != token:
		return fmt.Errorf("%w: the lease on %q has token %d, not %d: inspect it again", picket.ErrRefused, key, l.rec.token, token)
	case l.rec.kept:
		return fmt.Errorf("%w: the lease on %q with token %d was released, the key is kept for %s more",
			picket.ErrRefused, key, token, l.rec.free.Sub(now).Round(time.Millisecond))
	}
	s.lose(l, picket.ReasonBroken, now)
	return nil
}

// lose remembers why the holder of l must stop. A broken lease stays until its time is over; a waiter that was being handed it loses its place.
func (s *Store) lose(l *lock, reason picket.Reason, now time.Time) {
	l.handed = nil
	l.rec.broken = reason == picket.ReasonBroken
	s.losses.put(l.rec.claim.ID, loss{reason, l.rec.token, now.Add(memory)}, now)
}

// own returns the lock whose lease is c's and goes on, or a *picket.LostError.
func (s *Store) own(c picket.Claim, now time.Time) (*lock, error) {
	l := s.lock(c.Key, now)
	if l == nil {
		return nil, s.lost(c, nil, now)
	}
	if !l.rec.is(c.ID) || !l.rec.live(now) {
		return nil, s.lost(c, l.rec, now)
	}
	return l, nil
}

// lost says why c does not hold the key whose record is r.
func (s *Store) lost(c picket.Claim, r *record, now time.Time) error {
	e := &picket.LostError{Key: c.Key, At: now}
	known, ok := s.losses.get(c.ID, now)
	switch {
	case r.is(c.ID) && r.broken:
		e.Token, e.Reason = r.token, picket.ReasonBroken
	case r.is(c.ID):
		e.Token, e.Reason = r.token, picket.ReasonExpired
	case ok:
		e.Token, e.Reason = known.token, known.reason
	case r != nil && !r.kept:
		e.Reason = picket.ReasonStolen
	}
	return e
}
