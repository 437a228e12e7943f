package redisstore

import (
	"context"
	"fmt"
	"time"

	"github.com/picket-go/picket"
)

const (
	// longest bounds every time of a claim, so that sums of them stay exact in Lua.
	longest = 365 * 24 * time.Hour
	// defaultLife is how long a waiter that does not say when it asks again lives on without asking.
	defaultLife = 10 * time.Second
	// slack is added to three re-checks: a waiter is not dead because one poll was slow.
	slack = time.Second
)

// named refuses a claim that could match what belongs to nobody. Ids have a fixed length: they stand in front of the record and are compared whole.
func named(c picket.Claim) error {
	if c.Key == "" {
		return fmt.Errorf("%w: the claim has no key", picket.ErrInvalid)
	}
	if len(c.ID) != len(nobody) || !alphanumeric(c.ID) {
		return fmt.Errorf("%w: the id %.40q of the claim on %q is not 26 letters and digits", picket.ErrInvalid, c.ID, c.Key)
	}
	return nil
}

func alphanumeric(s string) bool {
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return true
}

// grantable refuses a claim that this store cannot honour.
func grantable(c picket.Claim) error {
	if c.Weight != 0 || c.Capacity != 0 {
		return fmt.Errorf("%w: the claim on %q has weight %d of %d, Redis grants exclusive leases only", picket.ErrUnsupported, c.Key, c.Weight, c.Capacity)
	}
	if err := named(c); err != nil {
		return err
	}
	if c.TTL <= 0 || c.TTL > longest {
		return fmt.Errorf("%w: TTL %s of the claim on %q is not between 1ns and %s", picket.ErrInvalid, c.TTL, c.Key, longest)
	}
	if outOfRange(c.Recheck) || outOfRange(c.MinHold) || outOfRange(c.LockDelay) {
		return fmt.Errorf("%w: recheck %s, min hold %s or lock delay %s of the claim on %q is not between 0s and %s",
			picket.ErrInvalid, c.Recheck, c.MinHold, c.LockDelay, c.Key, longest)
	}
	return nil
}

func outOfRange(d time.Duration) bool { return d < 0 || d > longest }

// Acquire makes one attempt. It returns a *picket.BusyError while another claim holds the key, is next in its queue, or it cools down; ErrRefused if the claim was undone;
// ErrUnsupported for a claim with a weight; ErrInvalid for one without a key, an id of 26 letters and digits, or a TTL of at most 365 days.
func (s *Store) Acquire(ctx context.Context, c picket.Claim) (picket.Grant, error) {
	if err := grantable(c); err != nil {
		return picket.Grant{}, err
	}
	e := s.newEntry("acquire", c.Key)
	about := e.subject
	e.asking(s, c)
	a, err := s.ask(ctx, e, (*node).granting)
	if err != nil {
		return picket.Grant{}, err
	}
	return a.grant(about, c)
}

// Transfer releases from and acquires to, both on the same key, in one act. With to.Queue false nobody can come between; else the queue decides who is next.
// A *picket.LostError says that from had no record: then nothing was done for to.
func (s *Store) Transfer(ctx context.Context, from, to picket.Claim) (picket.Grant, error) {
	if err := named(from); err != nil {
		return picket.Grant{}, err
	}
	if err := grantable(to); err != nil {
		return picket.Grant{}, err
	}
	if from.Key != to.Key || from.ID == to.ID {
		return picket.Grant{}, fmt.Errorf("%w: a transfer from a claim on %q to one on %q: want two claims on one key", picket.ErrInvalid, from.Key, to.Key)
	}
	e := s.newEntry("transfer", to.Key)
	about := e.subject
	e.leaving(from, markTransfer)
	e.asking(s, to)
	a, err := s.ask(ctx, e, (*node).granting)
	if err != nil {
		return picket.Grant{}, err
	}
	if a.word == "lost" {
		return picket.Grant{}, a.lost(to)
	}
	return a.grant(about, to)
}

// Release ends the lease of c, or keeps the key until the MinHold of c is over, leaves the queue, and hands a free key to the first live waiter. With c.Doubt it also
// refuses the claim for the next 10 minutes, even if it returns a *picket.LostError, because the claim has neither a record nor a place in the queue.
func (s *Store) Release(ctx context.Context, c picket.Claim) error {
	if err := named(c); err != nil {
		return err
	}
	if outOfRange(c.MinHold) {
		return fmt.Errorf("%w: min hold %s of the claim on %q is not between 0s and %s", picket.ErrInvalid, c.MinHold, c.Key, longest)
	}
	e := s.newEntry("release", c.Key)
	about := e.subject
	e.leaving(c, markLeaving)
	a, err := s.ask(ctx, e, (*node).releasing)
	switch {
	case err != nil:
		return err
	case a.word == "done":
		return nil
	case a.word == "lost":
		return a.lost(c)
	}
	return about.garbled(a)
}
