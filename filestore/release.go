package filestore

import (
	"context"
	"fmt"
	"time"

	"github.com/picket-go/picket"
)

// Release unlocks the key's file, or only closes it if [Store.File] gave it out: then processes that have it keep the lock. If the rest of a MinHold
// cannot be written, the lease is kept and the error says so; release it again.
func (s *Store) Release(ctx context.Context, c picket.Claim) error {
	end, err := s.turns.begin(ctx, c.Key)
	if err != nil {
		return err
	}
	defer end()
	if c.Doubt {
		s.bury(c)
	}
	h, err := s.own(c)
	if err != nil {
		if h := s.lease(c); h != nil && c.MinHold == 0 { // whether its file is in place is not known, but the lock is ours to free
			s.end(h)
		}
		return err
	}
	p := s.place(c.Key)
	now := s.now()
	if rest := c.MinHold - now.Sub(h.granted); rest > 0 {
		if err := s.write(p, h.rec.kept(s.left(h), now.Add(rest), c.MinHold)); err != nil {
			return failed(err)
		}
	} else {
		// Only a text for Inspect: the kernel's answer counts, so a mark that cannot be written hurts nobody.
		_ = setMark(p, s.left(h))
	}
	_ = s.step("unlock", p.lock())
	s.end(h)
	return nil
}

const (
	// reach is how far in the future a reissued token may be.
	reach = 10 * 365 * 24 * time.Hour
	// tokenMax keeps reissued tokens exact where numbers are float64 (DESIGN 3.7).
	tokenMax = 1<<53 - 1
)

// Reissue mints a token above the given one for the claim that holds. It returns ErrRefused if above is not in the future, more than 10 years ahead,
// or from 2^53 - 1 on; a *LostError if the claim does not hold.
func (s *Store) Reissue(ctx context.Context, c picket.Claim, above int64) (picket.Grant, error) {
	end, err := s.turns.begin(ctx, c.Key)
	if err != nil {
		return picket.Grant{}, err
	}
	defer end()
	h, err := s.own(c)
	if err != nil {
		return picket.Grant{}, err
	}
	switch now := s.now(); {
	case above <= now.UnixMicro():
		return picket.Grant{}, fmt.Errorf("%w: token %d for %q is not from the future: another claim was granted after this one, acquire again",
			picket.ErrRefused, above, c.Key)
	case above >= tokenMax || above > now.Add(reach).UnixMicro():
		return picket.Grant{}, fmt.Errorf("%w: token %d for %q is more than 10 years ahead or not below %d: lower the mark at the resource",
			picket.ErrRefused, above, c.Key, int64(tokenMax))
	}
	rec := h.rec
	rec.Token = max(rec.Token, above) + 1
	if err := s.write(s.place(c.Key), rec); err != nil {
		return picket.Grant{}, failed(err)
	}
	h.rec = rec
	return h.grant(), nil
}
