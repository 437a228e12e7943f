package locktest

import (
	"errors"
	"time"

	"github.com/picket-go/picket"
)

var refusing = theme{"refuse", []check{
	{"what the store does not claim is refused with ErrUnsupported", 0, refusesUnclaimed},
	{"weights are refused with ErrUnsupported", 0, refusesWeights},
}}

// unsupported fails unless c is refused and left nothing.
func (e *env) unsupported(what string, c picket.Claim) {
	e.Helper()
	if _, err := e.acquire(c); !errors.Is(err, picket.ErrUnsupported) {
		e.clean(c)
		e.Fatalf("Acquire with %s = %v, want ErrUnsupported", what, err)
	}
	e.state(c.Key, picket.StatusFree)
	e.granted(e.claim(c.Key))
}

func refusesUnclaimed(e *env) {
	if e.conf.NoMinHold {
		c := e.claim(e.key())
		c.MinHold = time.Second
		e.unsupported("MinHold", c)
	}
	if e.conf.NoExpiry {
		c := e.claim(e.key())
		c.LockDelay = time.Second
		e.unsupported("LockDelay", c)
	}
}

// refusesWeights covers GL-15 and S5: a store that took a semaphore's claim for an exclusive one, or the reverse, would break both.
func refusesWeights(e *env) {
	c := e.claim(e.key())
	c.Weight, c.Capacity = 1, 3
	e.unsupported("Weight 1 of 3", c)
	c = e.waiter(e.key())
	c.Weight, c.Capacity = 2, 2
	e.unsupported("Weight 2 of 2", c)
}
