// Package memstore keeps leases in memory: the reference model of what a picket.Store does, and a double for tests of your own code.
//
// It is one mutex around plain data. Leases end by the clock of the process, which in a testing/synctest bubble is the bubble's. A Store owns no goroutine and no timer:
// what has ended is found by the next call. All claims that shall exclude each other must use the same Store.
//
// Use Lose and Fail to see what your code does when its lease goes away or the store is out of reach.
package memstore

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/picket-go/picket"
)

// Store keeps leases in memory. Make it with New; its methods are safe for concurrent use.
type Store struct {
	mu      sync.Mutex
	fail    error
	locks   ledger[*lock]          // by key
	tokens  ledger[int64]          // by key, the last one granted
	tombs   ledger[time.Time]      // by claim id: when a late request of it may be forgotten
	losses  ledger[loss]           // by claim id: why it was ended by Lose or Break
	watches map[string]chan signal // by claim id
}

var _ interface {
	picket.Store
	picket.Waker
	picket.Transferer
	picket.Lister
	picket.Breaker
	picket.Reissuer
} = (*Store)(nil)

const (
	// memory is how long the store knows that a claim was undone, or why it was lost (DESIGN 3.1).
	memory = 10 * time.Minute
	// longest bounds every time of a claim, so that sums of them cannot overflow. It also refuses NoExpiry: here a clock ends every lease.
	longest = 365 * 24 * time.Hour
)

// New returns an empty Store.
func New() *Store {
	return &Store{
		locks:   ledger[*lock]{over: (*lock).over},
		tokens:  ledger[int64]{over: tokenOver},
		tombs:   ledger[time.Time]{over: func(until, now time.Time) bool { return !now.Before(until) }},
		losses:  ledger[loss]{over: func(l loss, now time.Time) bool { return !now.Before(l.until) }},
		watches: make(map[string]chan signal),
	}
}

// Fail makes every call return err until Fail(nil): an outage. Leases go on ending meanwhile. A call that fails has no effect.
func (s *Store) Fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = err
}

// ready returns the time at which a call takes effect, or why it must not. The caller holds the mutex.
func (s *Store) ready(ctx context.Context) (time.Time, error) {
	if err := ctx.Err(); err != nil {
		return time.Time{}, err
	}
	return time.Now(), s.fail
}

// named refuses a claim that could match what belongs to nobody.
func named(c picket.Claim) error {
	switch {
	case c.Key == "":
		return fmt.Errorf("%w: the claim has no key", picket.ErrInvalid)
	case c.ID == "":
		return fmt.Errorf("%w: the claim on %q has no id", picket.ErrInvalid, c.Key)
	}
	return nil
}

// grantable refuses a claim that this store cannot honour.
func grantable(c picket.Claim) error {
	if c.Weight != 0 || c.Capacity != 0 {
		return fmt.Errorf("%w: the claim on %q has weight %d of %d, memory grants exclusive leases only", picket.ErrUnsupported, c.Key, c.Weight, c.Capacity)
	}
	if err := named(c); err != nil {
		return err
	}
	return lasting(c)
}

// lasting refuses times that are negative, too long to add, or no time at all.
func lasting(c picket.Claim) error {
	if c.TTL <= 0 || c.TTL > longest {
		return fmt.Errorf("%w: TTL %s of the claim on %q is not between 1ns and %s", picket.ErrInvalid, c.TTL, c.Key, longest)
	}
	for _, d := range [...]time.Duration{c.Recheck, c.MinHold, c.LockDelay} {
		if d < 0 || d > longest {
			return fmt.Errorf("%w: recheck %s, min hold %s or lock delay %s of the claim on %q is not between 0s and %s",
				picket.ErrInvalid, c.Recheck, c.MinHold, c.LockDelay, c.Key, longest)
		}
	}
	return nil
}
