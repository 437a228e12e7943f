package memstore_test

import (
	"testing"
	"time"

	"github.com/picket-go/picket"
)

func (c client) watch(cl picket.Claim) (wake <-chan struct{}, stop func()) {
	c.Helper()
	wake, stop, err := c.Watch(c.Context(), cl)
	if err != nil {
		c.Fatal(err)
	}
	return wake, stop
}

func woken(wake <-chan struct{}) bool {
	select {
	case <-wake:
		return true
	default:
		return false
	}
}

func TestAHandOffWakesItsWaiterAndNobodyElse(t *testing.T) {
	bubble(t, func(c client) {
		c.grant(try("z"))
		c.busy(wait("a"), "z", 0)
		c.busy(wait("b"), "z", 1)
		a, stopA := c.watch(wait("a"))
		defer stopA()
		b, stopB := c.watch(wait("b"))
		defer stopB()
		if woken(a) || woken(b) {
			c.Error("woken while the key is held")
		}
		c.release(try("z"))
		if !woken(a) || woken(a) || woken(b) {
			c.Error("want one wake-up for a and none for b")
		}
	})
}

// W2: wake-ups that nobody takes do not block the store, and who polls needs none.
func TestAWaiterThatDoesNotListenIsServedAllTheSame(t *testing.T) {
	bubble(t, func(c client) {
		c.grant(try("z"))
		c.busy(wait("a"), "z", 0)
		_, stop := c.watch(wait("a"))
		defer stop()
		for range 3 {
			c.release(try("z"))
			c.grant(wait("a"))
			c.busy(wait("z"), "a", 0)
			c.release(wait("a"))
			c.grant(wait("z"))
			c.busy(wait("a"), "z", 0)
		}
	})
}

func TestAWaiterThatHungUpIsPassedOverAtOnce(t *testing.T) {
	for name, first := range map[string]bool{"watch before the place": true, "place before the watch": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(c client) {
				var stop func()
				c.grant(try("z"))
				if first {
					_, stop = c.watch(wait("a"))
					c.busy(wait("a"), "z", 0)
				} else {
					c.busy(wait("a"), "z", 0)
					_, stop = c.watch(wait("a"))
				}
				c.busy(wait("b"), "z", 1)
				stop()
				c.release(try("z"))
				c.held("b", time.Second)
			})
		})
	}
}

// Q1: nobody who waits can be reached, so the key is free for the one who asks.
func TestATryIsNotRefusedBecauseOfWaitersThatHungUp(t *testing.T) {
	bubble(t, func(c client) {
		c.grant(try("z"))
		_, stop := c.watch(wait("a"))
		c.busy(wait("a"), "z", 0)
		stop()
		c.release(try("z"))
		c.grant(try("t"))
	})
}

func TestAWaiterThatHungUpAndPollsIsInLineAgain(t *testing.T) {
	bubble(t, func(c client) {
		c.grant(try("z"))
		_, stop := c.watch(wait("a"))
		c.busy(wait("a"), "z", 0)
		stop()
		c.busy(wait("a"), "z", 0)
		c.release(try("z"))
		c.held("a", time.Second)
	})
}

func TestStopEndsItsOwnWatchOnly(t *testing.T) {
	bubble(t, func(c client) {
		c.grant(try("z"))
		c.busy(wait("a"), "z", 0)
		_, old := c.watch(wait("a"))
		wake, stop := c.watch(wait("a"))
		old()
		c.release(try("z"))
		if !woken(wake) {
			c.Error("the second watch was not woken")
		}
		stop()
		stop()
	})
}

func TestWatchNeedsAKeyAndAnID(t *testing.T) {
	bubble(t, func(c client) {
		_, _, err := c.Watch(c.Context(), try(""))
		c.isError(err, picket.ErrInvalid)
	})
}
