package memstore_test

import (
	"testing"
	"time"

	"github.com/picket-go/picket"
)

func TestReleaseFreesTheKeyAtOnce(t *testing.T) {
	bubble(t, func(c client) {
		c.grant(try("a"))
		c.release(try("a"))
		c.free()
		c.grant(try("b"))
	})
}

// L4, L5, GL-04, GL-12, GL-17: late, repeated and foreign releases.
func TestReleaseLeavesTheRecordOfAnotherClaimAlone(t *testing.T) {
	bubble(t, func(c client) {
		c.grant(try("a"))
		c.release(try("a"))
		c.isLost(c.Release(c.Context(), try("a")), "")
		c.grant(try("a2"))
		c.isLost(c.Release(c.Context(), try("a")), picket.ReasonStolen)
		c.isLost(c.Release(c.Context(), doubtful(try("a"))), picket.ReasonStolen)
		c.held("a2", ttl)
	})
}

func TestReleaseAfterExpiryIsLost(t *testing.T) {
	bubble(t, func(c client) {
		c.grant(try("a"))
		sleep(ttl)
		c.isLost(c.Release(c.Context(), try("a")), "")
	})
}

func TestReleaseInDoubtFreesTheKeyAndBurnsTheID(t *testing.T) {
	bubble(t, func(c client) {
		c.grant(try("a"))
		c.release(doubtful(try("a")))
		c.free()
		_, err := c.Acquire(c.Context(), try("a"))
		c.isError(err, picket.ErrRefused)
	})
}

func TestReleaseWithoutDoubtLeavesNoTombstone(t *testing.T) {
	bubble(t, func(c client) {
		c.grant(try("a"))
		c.release(try("a"))
		c.grant(try("a"))
	})
}

func TestReleaseOfAWaiterLeavesTheQueue(t *testing.T) {
	bubble(t, func(c client) {
		c.grant(try("a"))
		c.busy(wait("b"), "a", 0)
		c.busy(wait("d"), "a", 1)
		c.release(wait("b"))
		c.isLost(c.Release(c.Context(), wait("b")), picket.ReasonStolen)
		c.busy(wait("d"), "a", 0)
		c.release(try("a"))
		c.held("d", time.Second)
	})
}

func TestReleaseNeedsAKeyAndAnID(t *testing.T) {
	bubble(t, func(c client) {
		kept := try("a")
		kept.MinHold = time.Minute
		c.grant(kept)
		c.release(kept)
		c.isError(c.Release(c.Context(), try("")), picket.ErrInvalid)
		c.isError(c.Release(c.Context(), picket.Claim{ID: "a"}), picket.ErrInvalid)
		c.is(picket.StatusCooling, "", time.Minute)
	})
}

func TestMinHoldKeepsTheKeyBusyAfterTheRelease(t *testing.T) {
	bubble(t, func(c client) {
		a := try("a")
		a.MinHold = 30 * time.Second
		g := c.grant(a)
		sleep(2 * time.Second)
		c.release(a)
		if st := c.is(picket.StatusCooling, "", 28*time.Second); st.Token != g.Token || st.Holder.Host != "host-a" {
			c.Errorf("kept: %+v", st)
		}
		if busy := c.busy(try("b"), "", 0); busy.Remaining != 28*time.Second {
			c.Errorf("busy for %s", busy.Remaining)
		}
		// The kept record has no claim id: no late request of its claim matches it (DESIGN 3.5).
		c.isLost(c.renewal(a), "")
		c.isLost(c.Release(c.Context(), a), "")
		c.busy(a, "", 0)
		c.is(picket.StatusCooling, "", 28*time.Second)
		sleep(28 * time.Second)
		c.free()
		c.grant(try("b"))
	})
}

func TestMinHoldThatIsOverKeepsNothing(t *testing.T) {
	bubble(t, func(c client) {
		a := try("a")
		a.MinHold = 5 * time.Second
		c.grant(a)
		sleep(5 * time.Second)
		c.release(a)
		c.free()
	})
}

func TestWaitersGetAKeptKeyInTurn(t *testing.T) {
	bubble(t, func(c client) {
		a := try("a")
		a.MinHold = 5 * time.Second
		c.grant(a)
		c.busy(wait("b"), "a", 0)
		c.release(a)
		c.busy(wait("d"), "", 1)
		sleep(5 * time.Second)
		c.busy(wait("d"), "b", 0)
	})
}

func TestLockDelayKeepsTheKeyBusyAfterALeaseThatEndedByItself(t *testing.T) {
	bubble(t, func(c client) {
		a := try("a")
		a.LockDelay = 5 * time.Second
		c.grant(a)
		c.held("a", ttl)
		if busy := c.busy(try("b"), "a", 0); busy.Remaining != ttl+5*time.Second {
			c.Errorf("busy for %s, want TTL and delay", busy.Remaining)
		}
		sleep(ttl)
		c.is(picket.StatusCooling, "a", 5*time.Second)
		if lost := c.isLost(c.renewal(a), picket.ReasonExpired); lost.Token == 0 {
			c.Error("the loss has no token")
		}
		c.busy(a, "a", 0)
		c.busy(try("b"), "a", 0)
		sleep(5*time.Second - 1)
		c.busy(try("b"), "a", 0)
		sleep(1)
		c.grant(try("b"))
	})
}

func TestALateReleaseEndsTheLockDelay(t *testing.T) {
	bubble(t, func(c client) {
		a := try("a")
		a.LockDelay = time.Minute
		c.grant(a)
		sleep(ttl + time.Second)
		c.release(a)
		c.grant(try("b"))
	})
}
