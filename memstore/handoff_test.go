package memstore_test

import (
	"testing"
	"time"

	"github.com/picket-go/picket"
)

func TestReleaseHandsTheLockToTheFirstWaiter(t *testing.T) {
	bubble(t, func(c client) {
		first := c.grant(try("z"))
		c.busy(wait("a"), "z", 0)
		c.busy(wait("b"), "z", 1)
		c.release(try("z"))
		st := c.held("a", time.Second)
		if st.Token <= first.Token || st.Waiters != 1 || st.TTL != ttl {
			c.Errorf("handed over: %+v", st)
		}
		sleep(400 * time.Millisecond)
		// The waiter confirms: the token of the hand-off, the full TTL from now.
		if g := c.grant(wait("a")); g.Token != st.Token || g.Waiters != 1 {
			c.Errorf("confirmed: %+v, want token %d and 1 waiter", g, st.Token)
		}
		c.held("a", ttl)
	})
}

func TestTheConfirmWindowIsNotLongerThanTheTTL(t *testing.T) {
	bubble(t, func(c client) {
		a := wait("a")
		a.TTL = 300 * time.Millisecond
		c.grant(try("z"))
		c.busy(a, "z", 0)
		c.release(try("z"))
		c.held("a", a.TTL)
	})
}

func TestAHandOffThatNobodyConfirmedHasNoLockDelay(t *testing.T) {
	bubble(t, func(c client) {
		a := wait("a")
		a.LockDelay = time.Minute
		c.grant(try("z"))
		c.busy(a, "z", 0)
		c.release(try("z"))
		sleep(time.Second)
		c.free()
	})
}

func TestAConfirmedHandOffHasItsLockDelay(t *testing.T) {
	bubble(t, func(c client) {
		a := wait("a")
		a.LockDelay = time.Minute
		c.grant(try("z"))
		c.busy(a, "z", 0)
		c.release(try("z"))
		c.grant(a)
		sleep(ttl)
		c.is(picket.StatusCooling, "a", time.Minute)
	})
}

func TestMinHoldCountsFromTheConfirmation(t *testing.T) {
	bubble(t, func(c client) {
		a := wait("a")
		a.MinHold = 5 * time.Second
		c.grant(try("z"))
		c.busy(a, "z", 0)
		c.release(try("z"))
		sleep(500 * time.Millisecond)
		c.grant(a)
		c.release(a)
		c.is(picket.StatusCooling, "", 5*time.Second)
	})
}

func TestAWaiterThatLeavesDuringItsHandOffPassesTheLockOn(t *testing.T) {
	bubble(t, func(c client) {
		a := wait("a")
		a.MinHold = time.Minute // nobody has worked: nothing to keep
		c.grant(try("z"))
		c.busy(a, "z", 0)
		c.busy(wait("b"), "z", 1)
		c.release(try("z"))
		c.release(a)
		c.held("b", time.Second)
		sleep(time.Second)
		c.free()
		if n := c.status().Waiters; n != 1 {
			c.Errorf("%d waiters, want only b", n)
		}
	})
}

// A lapsed hand-off is not a death (DESIGN 3.6).
func TestALapsedHandOffIsPassedOverOnceAndKeepsItsTicket(t *testing.T) {
	bubble(t, func(c client) {
		c.grant(try("z"))
		c.busy(wait("a"), "z", 0)
		c.busy(wait("b"), "z", 1)
		c.busy(wait("d"), "z", 2)
		c.release(try("z"))
		c.held("a", time.Second)
		sleep(time.Second)
		// Even if it is a itself that asks now, b is next; a is still first of those that wait.
		c.busy(wait("a"), "b", 0)
		c.busy(wait("d"), "b", 1)
		c.grant(wait("b"))
		c.release(wait("b"))
		c.held("a", time.Second)
	})
}

func TestTwoLapsedHandOffsDoNotStarveTheThird(t *testing.T) {
	bubble(t, func(c client) {
		c.grant(try("z"))
		for i, id := range []string{"a", "b", "d"} {
			c.busy(wait(id), "z", i)
		}
		c.release(try("z"))
		for _, id := range []string{"a", "b"} {
			c.held(id, time.Second)
			sleep(time.Second)
			c.isLost(c.Release(c.Context(), try("nobody")), "")
		}
		c.held("d", time.Second)
	})
}

func TestALapsedHandOffIsOfferedAgainOnceItsWaiterHasPolled(t *testing.T) {
	bubble(t, func(c client) {
		c.grant(try("z"))
		c.busy(wait("a"), "z", 0)
		c.busy(wait("b"), "z", 1)
		c.release(try("z"))
		sleep(time.Second)
		c.isLost(c.Release(c.Context(), try("nobody")), "")
		c.held("b", time.Second)
		c.grant(wait("b"))
		c.busy(wait("a"), "b", 0) // others have been served since: it is first again
		c.busy(wait("d"), "b", 1)
		c.release(wait("b"))
		c.held("a", time.Second)
	})
}

// Dead waiters that nobody knows to be dead cost a window each, and not one for each that is served.
func TestAWaiterThatNeverConfirmsCostsOneWindow(t *testing.T) {
	bubble(t, func(c client) {
		c.grant(try("z"))
		c.busy(wait("a"), "z", 0)
		c.busy(wait("b"), "z", 1)
		c.release(try("z"))
		c.held("a", time.Second)
		sleep(time.Second)
		c.isLost(c.Release(c.Context(), try("nobody")), "")
		for range 3 {
			c.grant(wait("b"))
			c.release(wait("b"))
			c.grant(try("t"))
			c.busy(wait("b"), "t", 1)
			c.release(try("t"))
			c.held("b", time.Second)
		}
		c.grant(wait("b"))
		c.release(wait("b"))
		c.grant(wait("a")) // it lives after all
	})
}

func TestALateConfirmationOfALapsedHandOffIsAPoll(t *testing.T) {
	bubble(t, func(c client) {
		c.grant(try("z"))
		c.busy(wait("a"), "z", 0)
		c.release(try("z"))
		handed := c.status().Token
		sleep(time.Second)
		c.isLost(c.renewal(wait("a")), "")
		if g := c.grant(wait("a")); g.Token <= handed {
			c.Errorf("token %d is not above %d, that of the lapsed hand-off", g.Token, handed)
		}
	})
}
