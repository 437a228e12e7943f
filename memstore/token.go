package memstore

import (
	"context"
	"fmt"
	"time"

	"github.com/picket-go/picket"
)

const (
	// tokenMemory is how long the last token of a key is known. The next one is not below the time, so it rises even if the last one is forgotten.
	tokenMemory = 24 * time.Hour
	// tokenReach is how far ahead of the clock a token may be set.
	tokenReach = 10 * 365 * 24 * time.Hour
	// tokenMax is the largest token that every store can count on from: in a script of Redis 2^53 + 1 equals 2^53.
	tokenMax = 1<<53 - 1
)

// tokenOver never forgets a token from the future.
func tokenOver(token int64, now time.Time) bool { return token < now.Add(-tokenMemory).UnixMicro() }

// mint returns a token for a new grant of key (DESIGN 3.7).
func (s *Store) mint(key string, now time.Time) int64 {
	last, _ := s.tokens.get(key, now)
	token := max(last+1, now.UnixMicro())
	s.tokens.put(key, token, now)
	return token
}

// Reissue mints a token above the given one for the claim that holds the key: for a resource that has seen a token from the future. It does not renew.
// It returns ErrRefused if above is not in the future (then another claim was granted after this one), more than 10 years ahead, or from 2^53 - 1 on; a *picket.LostError
// if the claim does not hold.
func (s *Store) Reissue(ctx context.Context, c picket.Claim, above int64) (picket.Grant, error) {
	if err := named(c); err != nil {
		return picket.Grant{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now, err := s.ready(ctx)
	if err != nil {
		return picket.Grant{}, err
	}
	l, err := s.own(c, now)
	if err != nil {
		return picket.Grant{}, err
	}
	switch {
	case above <= now.UnixMicro():
		return picket.Grant{}, fmt.Errorf("%w: token %d for %q is not from the future: another claim was granted after this one, acquire again", picket.ErrRefused, above, c.Key)
	case above >= tokenMax:
		return picket.Grant{}, fmt.Errorf("%w: token %d for %q is not below %d: lower the mark at the resource", picket.ErrRefused, above, c.Key, int64(tokenMax))
	case above > now.Add(tokenReach).UnixMicro():
		return picket.Grant{}, fmt.Errorf("%w: token %d for %q is more than 10 years ahead: lower the mark at the resource", picket.ErrRefused, above, c.Key)
	}
	last, _ := s.tokens.get(c.Key, now)
	l.rec.token = max(last, above) + 1
	s.tokens.put(c.Key, l.rec.token, now)
	return picket.Grant{Token: l.rec.token, Waiters: l.queue.ahead("", now)}, nil
}
