package memstore_test

import (
	"testing"
	"time"

	"github.com/picket-go/picket"
)

// L3, GL-01: the same claim twice, because the first reply was lost.
func TestTheSameClaimGetsTheSameTokenAndTheFullTTL(t *testing.T) {
	bubble(t, func(c client) {
		first := c.grant(try("a"))
		sleep(4 * time.Second)
		c.held("a", 6*time.Second)
		if again := c.grant(try("a")); again != first {
			c.Errorf("again: %+v, want %+v", again, first)
		}
		c.held("a", ttl)
	})
}

func TestAcquireNeverShortensItsOwnLease(t *testing.T) {
	bubble(t, func(c client) {
		c.grant(try("a"))
		short := try("a")
		short.TTL = time.Second
		if g := c.grant(short); g.TTL != time.Second {
			c.Errorf("granted %s, want what the claim asks for", g.TTL)
		}
		if st := c.held("a", ttl); st.TTL != time.Second {
			c.Errorf("the record has TTL %s, want that of the last request", st.TTL)
		}
	})
}

func TestAcquireByTheHolderUpdatesTheRecord(t *testing.T) {
	bubble(t, func(c client) {
		c.grant(try("a"))
		again := try("a")
		again.Holder.Label, again.LockDelay = "nightly", 5*time.Second
		c.grant(again)
		if st := c.held("a", ttl); st.Holder.Label != "nightly" {
			c.Errorf("label %q, want the new one", st.Holder.Label)
		}
		sleep(ttl)
		c.is(picket.StatusCooling, "a", 5*time.Second)
	})
}

// GL-11: ids are compared whole, and a refused claim leaves the record alone.
func TestAnotherClaimIsBusyAndChangesNothing(t *testing.T) {
	for _, other := range []string{"b", "a1", "A", "aa"} {
		t.Run(other, func(t *testing.T) {
			bubble(t, func(c client) {
				c.grant(try("a"))
				sleep(time.Second)
				before := c.status()
				busy := c.busy(try(other), "a", 0)
				if busy.Remaining != 9*time.Second || busy.Holder.Host != "host-a" || !busy.Holder.Since.Equal(time.Now().Add(-time.Second)) {
					c.Errorf("busy: %+v", busy)
				}
				if after := c.status(); after != before {
					c.Errorf("status %+v, before %+v", after, before)
				}
			})
		})
	}
}

func TestALeaseEndsAfterItsTTLAndNotBefore(t *testing.T) {
	bubble(t, func(c client) {
		c.grant(try("a"))
		sleep(ttl - 1)
		c.held("a", 1)
		c.busy(try("b"), "a", 0)
		sleep(1)
		c.free()
		c.grant(try("b"))
	})
}

func TestKeysDoNotExcludeEachOther(t *testing.T) {
	bubble(t, func(c client) {
		c.grant(try("a"))
		other := try("b")
		other.Key = key + "2"
		c.grant(other)
		c.held("a", ttl)
	})
}

// L2: the acquire reaches the store after its own clean-up.
func TestAnUndoneClaimIsRefusedForTenMinutes(t *testing.T) {
	bubble(t, func(c client) {
		c.isLost(c.Release(c.Context(), doubtful(try("a"))), "")
		late := func(cl picket.Claim) error {
			_, err := c.Acquire(c.Context(), cl)
			return err
		}
		c.isError(late(try("a")), picket.ErrRefused)
		c.isError(late(wait("a")), picket.ErrRefused)
		if st := c.free(); st.Waiters != 0 {
			c.Errorf("%d waiters, want none", st.Waiters)
		}
		c.grant(try("b"))
		c.release(try("b"))
		sleep(10*time.Minute - 1)
		c.isError(late(try("a")), picket.ErrRefused)
		sleep(1)
		c.grant(try("a"))
	})
}

// L15, GL-30: nothing is set for a TTL that is no time, or one that overflows.
func TestAcquireRefusesBadClaims(t *testing.T) {
	bad := map[string]struct {
		change func(*picket.Claim)
		want   error
	}{
		"no id":               {func(c *picket.Claim) { c.ID = "" }, picket.ErrInvalid},
		"no key":              {func(c *picket.Claim) { c.Key = "" }, picket.ErrInvalid},
		"TTL 0":               {func(c *picket.Claim) { c.TTL = 0 }, picket.ErrInvalid},
		"negative TTL":        {func(c *picket.Claim) { c.TTL = -time.Second }, picket.ErrInvalid},
		"TTL of 300 years":    {func(c *picket.Claim) { c.TTL = 290 * 365 * 24 * time.Hour }, picket.ErrInvalid},
		"no expiry":           {func(c *picket.Claim) { c.TTL = picket.NoExpiry }, picket.ErrInvalid},
		"negative lock delay": {func(c *picket.Claim) { c.LockDelay = -1 }, picket.ErrInvalid},
		"negative min hold":   {func(c *picket.Claim) { c.MinHold = -1 }, picket.ErrInvalid},
		"endless recheck":     {func(c *picket.Claim) { c.Recheck = picket.NoExpiry }, picket.ErrInvalid},
		"weight":              {func(c *picket.Claim) { c.Weight = 1 }, picket.ErrUnsupported},
		"capacity":            {func(c *picket.Claim) { c.Capacity = 1 }, picket.ErrUnsupported},
	}
	for name, b := range bad {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(c client) {
				cl := try("a")
				b.change(&cl)
				_, err := c.Acquire(c.Context(), cl)
				c.isError(err, b.want)
				_, err = c.Transfer(c.Context(), try("x"), cl)
				c.isError(err, b.want)
				if st := c.free(); st.Token != 0 {
					c.Errorf("token %d was granted", st.Token)
				}
			})
		})
	}
}
