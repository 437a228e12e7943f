package memstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/picket-go/picket"
)

// GL-38: the order of arrival, with and without time between.
func TestWaitersAreServedInOrder(t *testing.T) {
	bubble(t, func(c client) {
		c.grant(try("z"))
		holder := try("z")
		var line []picket.Claim
		for i := range 100 {
			w := wait(fmt.Sprintf("w%d", i))
			c.busy(w, "z", i)
			line = append(line, w)
			if i%3 == 0 {
				sleep(50 * time.Millisecond)
			}
		}
		for _, w := range line {
			c.release(holder)
			c.held(w.ID, time.Second)
			c.grant(w)
			holder = w
		}
		c.release(holder)
		c.free()
	})
}

func TestAPollKeepsThePlaceInTheQueue(t *testing.T) {
	bubble(t, func(c client) {
		c.grant(try("z"))
		c.busy(wait("a"), "z", 0)
		c.busy(wait("b"), "z", 1)
		sleep(time.Second)
		c.busy(wait("b"), "z", 1)
		c.busy(wait("a"), "z", 0)
		if n := c.status().Waiters; n != 2 {
			c.Errorf("%d waiters, want 2", n)
		}
	})
}

// Q4, GL-08: a waiter that asks once more without waiting is gone.
func TestATryLeavesNoPlaceBehind(t *testing.T) {
	bubble(t, func(c client) {
		c.grant(try("z"))
		c.busy(wait("a"), "z", 0)
		c.busy(wait("b"), "z", 1)
		c.busy(try("a"), "z", 1)
		if n := c.status().Waiters; n != 1 {
			c.Errorf("%d waiters, want only b", n)
		}
		c.release(try("z"))
		c.held("b", time.Second)
	})
}

func TestATryNeverPassesALiveWaiter(t *testing.T) {
	bubble(t, func(c client) {
		c.grant(try("z"))
		sleep(ttl - time.Second)
		c.busy(wait("a"), "z", 0)
		c.busy(wait("b"), "z", 1)
		sleep(time.Second)
		// The key is free, and the busy error names the waiter that was just served.
		if busy := c.busy(try("t"), "a", 1); busy.Remaining != time.Second {
			c.Errorf("busy for %s, want the confirm window", busy.Remaining)
		}
	})
}

// Every call that finds no record and a queue hands over.
func TestAnyCallHandsAnExpiredKeyToTheFirstLiveWaiter(t *testing.T) {
	calls := map[string]func(c client){
		"poll of a later waiter": func(c client) { c.busy(wait("b"), "a", 0) },
		"acquire of a new one":   func(c client) { c.busy(wait("d"), "a", 1) },
		"try":                    func(c client) { c.busy(try("d"), "a", 1) },
		"leave":                  func(c client) { c.release(wait("b")) },
		"release of the expired": func(c client) { c.isLost(c.Release(c.Context(), try("z")), "") },
		"undo":                   func(c client) { c.isLost(c.Release(c.Context(), doubtful(try("y"))), "") },
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(c client) {
				c.grant(try("z"))
				sleep(ttl - time.Second)
				c.busy(wait("a"), "z", 0)
				c.busy(wait("b"), "z", 1)
				sleep(time.Second)
				c.free()
				call(c)
				c.held("a", time.Second)
				c.grant(wait("a"))
				c.held("a", ttl)
			})
		})
	}
}

func TestTheFirstInLineIsGrantedOutrightWhenItAsks(t *testing.T) {
	bubble(t, func(c client) {
		c.grant(try("z"))
		sleep(ttl - time.Second)
		c.busy(wait("a"), "z", 0)
		c.busy(wait("b"), "z", 1)
		sleep(time.Second)
		if g := c.grant(wait("a")); g.Waiters != 1 {
			c.Errorf("%d other waiters, want 1", g.Waiters)
		}
		c.held("a", ttl)
	})
}

// Q1: a hundred killed waiters cost nothing but their heartbeat.
func TestDeadWaitersArePurgedTogether(t *testing.T) {
	bubble(t, func(c client) {
		c.grant(try("z"))
		for i := range 100 {
			c.busy(wait(fmt.Sprintf("w%d", i)), "z", i)
		}
		sleep(ttl)
		// Their last sign of life is 10 s old: not yet dead.
		c.busy(try("t"), "w0", 99)
		sleep(1)
		if n := c.status().Waiters; n != 0 {
			c.Errorf("%d waiters, want none alive", n)
		}
		sleep(time.Second)
		c.grant(try("t"))
	})
}

func TestAWaiterLivesForThreeRechecksAndASecond(t *testing.T) {
	for recheck, life := range map[time.Duration]time.Duration{
		0:                      10 * time.Second,
		250 * time.Millisecond: 1750 * time.Millisecond,
		3 * time.Second:        10 * time.Second,
		10 * time.Second:       31 * time.Second,
	} {
		t.Run(recheck.String(), func(t *testing.T) {
			bubble(t, func(c client) {
				z, a := try("z"), wait("a")
				z.TTL, a.Recheck = time.Hour, recheck
				c.grant(z)
				c.busy(a, "z", 0)
				sleep(life)
				if n := c.status().Waiters; n != 1 {
					c.Errorf("%d waiters after %s, want it alive", n, life)
				}
				c.busy(try("t"), "z", 1)
				sleep(1)
				if n := c.status().Waiters; n != 0 {
					c.Errorf("%d waiters after more than %s, want it dead", n, life)
				}
				c.busy(try("t"), "z", 0)
			})
		})
	}
}

func TestAPollInTimeKeepsTheWaiterAlive(t *testing.T) {
	bubble(t, func(c client) {
		z := try("z")
		z.TTL = time.Hour
		c.grant(z)
		c.busy(wait("a"), "z", 0)
		for range 5 {
			sleep(10 * time.Second)
			c.busy(wait("a"), "z", 0)
		}
		c.release(z)
		c.held("a", time.Second)
	})
}
