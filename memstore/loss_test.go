package memstore_test

import (
	"testing"
	"time"

	"github.com/picket-go/picket"
)

func TestLoseEndsTheLeaseAndTellsTheHolderWhy(t *testing.T) {
	for _, reason := range []picket.Reason{picket.ReasonExpired, picket.ReasonDeleted, picket.ReasonStolen, picket.ReasonFailover} {
		t.Run(string(reason), func(t *testing.T) {
			bubble(t, func(c client) {
				g := c.grant(try("a"))
				c.Lose(key, reason)
				c.free()
				if lost := c.isLost(c.renewal(try("a")), reason); lost.Token != g.Token {
					c.Errorf("lost token %d, want %d", lost.Token, g.Token)
				}
				c.grant(try("b"))
				c.isLost(c.renewal(try("a")), reason)
				c.isLost(c.Release(c.Context(), try("a")), reason)
				c.held("b", ttl)
				sleep(10 * time.Minute)
				c.isLost(c.renewal(try("a")), "")
			})
		})
	}
}

func TestLoseHandsTheKeyToTheFirstWaiter(t *testing.T) {
	bubble(t, func(c client) {
		c.grant(try("a"))
		c.busy(wait("w"), "a", 0)
		c.Lose(key, picket.ReasonDeleted)
		c.held("w", time.Second)
	})
}

func TestLoseOfAHandOffGivesTheKeyToTheNext(t *testing.T) {
	bubble(t, func(c client) {
		c.grant(try("a"))
		c.busy(wait("v"), "a", 0)
		c.busy(wait("w"), "a", 1)
		c.release(try("a"))
		c.Lose(key, picket.ReasonDeleted)
		if st := c.held("w", time.Second); st.Waiters != 0 {
			c.Errorf("%d waiters, want v gone", st.Waiters)
		}
	})
}

func TestLoseOfAFreeKeyDoesNothing(t *testing.T) {
	bubble(t, func(c client) {
		c.Lose(key, picket.ReasonDeleted)
		c.grant(try("a"))
		c.release(try("a"))
		c.Lose(key, picket.ReasonBroken)
		c.grant(try("a"))
		c.renewed(try("a"))
	})
}

func TestABrokenLeaseRunsOutAndIsNotRenewed(t *testing.T) {
	breaks := map[string]func(c client, token int64){
		"Break": func(c client, token int64) {
			for range 2 {
				if err := c.Break(c.Context(), key, token); err != nil {
					c.Fatal(err)
				}
			}
		},
		"Lose": func(c client, _ int64) { c.Lose(key, picket.ReasonBroken) },
	}
	for name, broken := range breaks {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(c client) {
				g := c.grant(try("a"))
				c.busy(wait("w"), "a", 0)
				sleep(time.Second)
				broken(c, g.Token)
				if lost := c.isLost(c.renewal(try("a")), picket.ReasonBroken); lost.Token != g.Token {
					c.Errorf("lost token %d, want %d", lost.Token, g.Token)
				}
				c.busy(try("a"), "a", 1)
				c.is(picket.StatusCooling, "a", 9*time.Second)
				sleep(9 * time.Second)
				c.busy(try("t"), "w", 0)
				c.isLost(c.renewal(try("a")), picket.ReasonBroken)
			})
		})
	}
}

func TestTheHolderOfABrokenLeaseMayReleaseIt(t *testing.T) {
	bubble(t, func(c client) {
		g := c.grant(try("a"))
		if err := c.Break(c.Context(), key, g.Token); err != nil {
			c.Fatal(err)
		}
		c.release(try("a"))
		c.grant(try("b"))
	})
}

func TestBreakOfAHandOffSendsTheWaiterToTheEnd(t *testing.T) {
	bubble(t, func(c client) {
		c.grant(try("a"))
		c.busy(wait("v"), "a", 0)
		c.busy(wait("w"), "a", 1)
		c.release(try("a"))
		if err := c.Break(c.Context(), key, c.status().Token); err != nil {
			c.Fatal(err)
		}
		c.busy(wait("v"), "v", 1)
		sleep(time.Second)
		c.busy(wait("v"), "w", 0)
	})
}

func TestBreakNeedsThePresentToken(t *testing.T) {
	bubble(t, func(c client) {
		c.isError(c.Break(c.Context(), key, 1), picket.ErrRefused)
		a := try("a")
		a.MinHold = time.Minute
		g := c.grant(a)
		c.isError(c.Break(c.Context(), key, g.Token-1), picket.ErrRefused)
		c.renewed(a)
		c.release(a)
		c.isError(c.Break(c.Context(), key, g.Token), picket.ErrRefused)
		sleep(time.Minute)
		c.isError(c.Break(c.Context(), key, g.Token), picket.ErrRefused)
	})
}
