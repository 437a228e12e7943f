package redisstore

import (
	"context"
	"fmt"

	"github.com/picket-go/picket"
)

// tokenMax is the largest token that scripts can count on from: in Lua 2^53 + 1 equals 2^53.
const tokenMax = 1<<53 - 1

// Break marks the lease with this token as broken: it cannot be renewed, and the key is given on when its remaining time is over, so that the holder is not surprised.
// It returns ErrRefused if the key is free, or its token is another one by now.
func (s *Store) Break(ctx context.Context, key string, token int64) error {
	r := newRequest("break", key, breakScript, s.keys(nil, key), token)
	a, err := s.one(ctx, r)
	if err != nil {
		return err
	}
	switch a.word {
	case "broken":
		return nil
	case "free":
		return fmt.Errorf("%w: nothing to break, %q is free", picket.ErrRefused, key)
	case "token":
		return fmt.Errorf("%w: the lease on %q has token %d, not %d: inspect it again", picket.ErrRefused, key, a.number(0), token)
	case "kept":
		return fmt.Errorf("%w: the lease on %q with token %d was released, the key is kept for %s more", picket.ErrRefused, key, token, a.millis(0))
	}
	return r.garbled(a)
}

// Reissue mints a token above the given one for the claim that holds the key: for a resource that has seen a token from the future. It does not renew.
// It returns ErrRefused if above is not in the future (then another claim was granted after this one), more than 10 years ahead, or from 2^53 - 1 on; a *picket.LostError
// if the claim does not hold.
func (s *Store) Reissue(ctx context.Context, c picket.Claim, above int64) (picket.Grant, error) {
	if err := named(c); err != nil {
		return picket.Grant{}, err
	}
	// A number that Lua cannot hold is out of reach all the same; the holder is checked first.
	asked := min(max(above, 0), tokenMax)
	r := newRequest("reissue", c.Key, reissueScript, s.keys(nil, c.Key), c.ID, asked)
	a, err := s.one(ctx, r)
	if err != nil {
		return picket.Grant{}, err
	}
	switch a.word {
	case "reissued":
		return picket.Grant{Token: a.number(0), Waiters: int(a.number(1))}, nil
	case "lost":
		return picket.Grant{}, a.lost(c)
	case "past":
		return picket.Grant{}, fmt.Errorf("%w: token %d for %q is not from the future: another claim was granted after this one, acquire again", picket.ErrRefused, above, c.Key)
	case "far":
		return picket.Grant{}, fmt.Errorf("%w: token %d for %q is more than 10 years ahead: lower the mark at the resource", picket.ErrRefused, above, c.Key)
	}
	return picket.Grant{}, r.garbled(a)
}
