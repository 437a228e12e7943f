package picket

import (
	"context"
	"iter"
	"math"
	"time"
)

// NoExpiry is the TTL and the remaining time of a lease that no clock ends: a store of kernel locks grants it, and the lease then lives as long as its process.
const NoExpiry time.Duration = math.MaxInt64

// Claim is one attempt to own a key. Stores compare ID whole. Fields may be added; a store refuses with ErrUnsupported what it cannot honour.
type Claim struct {
	_         struct{}
	ID        string // 26 characters, random, never reused
	Key       string
	TTL       time.Duration
	Holder    Holder
	Queue     bool          // take or keep a place in the queue when busy; false: leave none behind
	Recheck   time.Duration // the waiter asks again within this time; after three of them it may be taken for dead
	MinHold   time.Duration
	LockDelay time.Duration
	Doubt     bool // Release only: an attempt of this claim had no clear answer, so a late one must be refused (tombstone)
	Weight    int  // 0 is exclusive; else Weight of Capacity is taken (semaphore, readers)
	Capacity  int
}

// Grant is the store's yes.
type Grant struct {
	_       struct{}
	Token   int64
	TTL     time.Duration // what the store really set, counted from the request; 0 is the claim's, NoExpiry is no limit
	Waiters int           // others in the queue, -1 unknown: bounds local hand-off
}

// What Status.State says.
const (
	StatusFree    = "free"
	StatusHeld    = "held"
	StatusCooling = "cooling" // MinHold or LockDelay, or broken by an operator: nobody may work, nobody is let in yet
)

// Status is what a store knows of a key.
type Status struct {
	Key       string
	State     string // StatusFree, StatusHeld or StatusCooling
	Holder    Holder
	Token     int64 // the last one granted, also when free; 0 never
	TTL       time.Duration
	Remaining time.Duration // NoExpiry if no clock ends it
	Waiters   int           // -1 if the store cannot tell
}

// Store keeps leases. Methods are safe for concurrent use and return soon after ctx ends, whatever the network does.
//
// Errors mean: *BusyError no; ErrRefused no, and asking again is useless; ErrUnsupported, ErrInvalid nothing was sent; any other error: in doubt, the Locker asks again
// with the same claim or undoes it. An error in whose tree a method Unsent() bool returns true (a refused dial, an exhausted pool) is not in doubt: nothing left the process.
type Store interface {
	// Acquire makes one attempt. The same claim again gets the same token and the full TTL from now (that is how a woken waiter confirms).
	Acquire(ctx context.Context, c Claim) (Grant, error)

	// Renew sets each claim's remaining time back to its TTL and never creates a record. It calls report once per claim as soon as that claim's answer is known, in any
	// order, possibly concurrently, and not after it has returned; a claim without report counts as no answer. An error with ErrLost is final.
	Renew(ctx context.Context, cs []Claim, report func(i int, err error))

	// Release ends the lease, leaves the queue, and undoes an attempt in doubt. A record that is not this claim's is left alone and gives a *LostError;
	// so does a claim that has neither a record nor a place in the queue.
	Release(ctx context.Context, c Claim) error

	// Inspect reports on key without changing it.
	Inspect(ctx context.Context, key string) (Status, error)
}

// Optional. Losing one (in a decorator) may cost speed or a feature, never correctness; the Locker does not look through decorators.
type (
	// Waker tells waiters when to ask again. Watch returns when listening is confirmed, so the Locker's next attempt cannot miss a wake-up; wakes may be lost or spurious.
	// With a ctx that has ended Watch may still succeed, if it has nothing to wait for.
	Waker interface {
		Watch(ctx context.Context, c Claim) (wake <-chan struct{}, stop func(), err error)
	}
	// Transferer releases one claim and grants another of the same Locker in one act, or releases and answers *BusyError if others are due.
	//
	// With to.Queue false the swap is unconditional: the Locker is inside its local turn. With to.Queue true it is Release followed by Acquire of to, in one act: to is
	// granted if it is first in line or nobody waits, else it keeps its place or takes the last one. A *LostError says that from had no record: then nothing was done for to.
	Transferer interface {
		Transfer(ctx context.Context, from, to Claim) (Grant, error)
	}
	// Lister lists the keys with a record. An entry that cannot be read is yielded as an error and does not end the listing; what does is the last thing yielded.
	Lister interface {
		List(ctx context.Context, prefix string) iter.Seq2[Status, error]
	}
	// Breaker ends somebody's lease if its token is still this one; the holder's reason is "broken".
	Breaker interface {
		Break(ctx context.Context, key string, token int64) error
	}
	// Reissuer mints a larger token for the claim that holds.
	Reissuer interface {
		Reissue(ctx context.Context, c Claim, above int64) (Grant, error)
	}
)
