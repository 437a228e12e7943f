package memstore_test

import (
	"testing"
	"time"

	"github.com/picket-go/picket"
)

func (c client) transfer(from, to picket.Claim) picket.Grant {
	c.Helper()
	g, err := c.Transfer(c.Context(), from, to)
	if err != nil {
		c.Fatalf("transfer from %s to %s: %v", from.ID, to.ID, err)
	}
	return g
}

func TestTransferWithoutQueueSwapsPastTheWaiters(t *testing.T) {
	bubble(t, func(c client) {
		first := c.grant(try("a"))
		c.busy(wait("w"), "a", 0)
		c.busy(wait("b"), "a", 1)
		wake, stop := c.watch(wait("w"))
		defer stop()
		sleep(time.Second)
		g := c.transfer(try("a"), try("b"))
		if g.Token <= first.Token || g.TTL != ttl || g.Waiters != 1 {
			c.Errorf("granted %+v after token %d, want a larger one and 1 waiter", g, first.Token)
		}
		c.held("b", ttl)
		if woken(wake) {
			c.Error("a swap woke a waiter")
		}
		c.isLost(c.Release(c.Context(), try("a")), picket.ReasonStolen)
		c.release(try("b"))
		c.held("w", time.Second)
	})
}

func TestTransferWithQueueGrantsIfNobodyWaits(t *testing.T) {
	bubble(t, func(c client) {
		first := c.grant(try("a"))
		if g := c.transfer(try("a"), wait("b")); g.Token <= first.Token || g.Waiters != 0 {
			c.Errorf("granted %+v", g)
		}
		c.held("b", ttl)
	})
}

func TestTransferWithQueueGrantsTheFirstInLine(t *testing.T) {
	bubble(t, func(c client) {
		c.grant(try("a"))
		c.busy(wait("b"), "a", 0)
		c.busy(wait("w"), "a", 1)
		if g := c.transfer(try("a"), wait("b")); g.Waiters != 1 {
			c.Errorf("granted %+v", g)
		}
		c.held("b", ttl)
	})
}

func TestTransferWithQueueServesTheFirstLiveWaiter(t *testing.T) {
	for name, placed := range map[string]bool{"keeps its place": true, "takes the last place": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(c client) {
				c.grant(try("a"))
				c.busy(wait("w"), "a", 0)
				ahead := 1
				if placed {
					c.busy(wait("b"), "a", 1)
					ahead = 0
				}
				c.busy(wait("x"), "a", 2-ahead)
				_, err := c.Transfer(c.Context(), try("a"), wait("b"))
				c.isBusy(err, "w", ahead)
				c.held("w", time.Second)
				c.busy(wait("b"), "w", ahead)
			})
		})
	}
}

func TestTransferFromALostClaimDoesNothing(t *testing.T) {
	bubble(t, func(c client) {
		_, err := c.Transfer(c.Context(), try("a"), wait("b"))
		c.isLost(err, "")
		c.free()
		c.grant(try("z"))
		_, err = c.Transfer(c.Context(), try("a"), wait("b"))
		c.isLost(err, picket.ReasonStolen)
		if st := c.held("z", ttl); st.Waiters != 0 {
			c.Errorf("%d waiters, want none", st.Waiters)
		}
	})
}

// L3: the reply of a transfer was lost. Asked again it finds nothing to release, and an acquire of the same claim gets the token.
func TestTransferFromAWaiterTakesItOutOfTheLine(t *testing.T) {
	bubble(t, func(c client) {
		c.grant(try("a"))
		c.busy(wait("w"), "a", 0)
		_, err := c.Transfer(c.Context(), wait("w"), try("b"))
		c.isLost(err, picket.ReasonStolen)
		c.release(try("a"))
		c.grant(try("b"))
	})
}

func TestARepeatedTransferLeavesTheNewHolderAlone(t *testing.T) {
	bubble(t, func(c client) {
		c.grant(try("a"))
		g := c.transfer(try("a"), try("b"))
		_, err := c.Transfer(c.Context(), try("a"), try("b"))
		c.isLost(err, picket.ReasonStolen)
		if again := c.grant(try("b")); again != g {
			c.Errorf("again %+v, want %+v", again, g)
		}
	})
}

func TestTransferInDoubtBurnsTheOldID(t *testing.T) {
	bubble(t, func(c client) {
		c.grant(try("a"))
		c.transfer(doubtful(try("a")), try("b"))
		c.release(try("b"))
		_, err := c.Acquire(c.Context(), try("a"))
		c.isError(err, picket.ErrRefused)
	})
}

func TestTransferToAnUndoneClaimIsRefusedAndReleasesNothing(t *testing.T) {
	bubble(t, func(c client) {
		c.grant(try("a"))
		c.isLost(c.Release(c.Context(), doubtful(try("b"))), picket.ReasonStolen)
		_, err := c.Transfer(c.Context(), try("a"), try("b"))
		c.isError(err, picket.ErrRefused)
		c.held("a", ttl)
	})
}

func TestTransferDuringMinHoldKeepsTheKey(t *testing.T) {
	for name, queue := range map[string]bool{"queue": true, "no queue": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(c client) {
				a, b := try("a"), wait("b")
				a.MinHold = 5 * time.Second
				c.grant(a)
				c.busy(b, "a", 0)
				b.Queue = queue
				_, err := c.Transfer(c.Context(), a, b)
				c.isBusy(err, "", 0)
				st := c.is(picket.StatusCooling, "", 5*time.Second)
				if waits := st.Waiters == 1; waits != queue {
					c.Errorf("%d waiters with queue %v", st.Waiters, queue)
				}
			})
		})
	}
}

func TestTransferNeedsTwoClaimsOnOneKey(t *testing.T) {
	bubble(t, func(c client) {
		c.grant(try("a"))
		other := try("b")
		other.Key = "other"
		for _, to := range []picket.Claim{other, try("a")} {
			_, err := c.Transfer(c.Context(), try("a"), to)
			c.isError(err, picket.ErrInvalid)
		}
		_, err := c.Transfer(c.Context(), try(""), try("b"))
		c.isError(err, picket.ErrInvalid)
		c.held("a", ttl)
	})
}
