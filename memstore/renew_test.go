package memstore_test

import (
	"slices"
	"testing"
	"time"

	"github.com/picket-go/picket"
)

func TestRenewSetsTheRemainingTimeToTheTTLAndNeverAddsToIt(t *testing.T) {
	bubble(t, func(c client) {
		c.grant(try("a"))
		c.renewed(try("a"))
		c.renewed(try("a"))
		c.held("a", ttl)
		sleep(6 * time.Second)
		c.renewed(try("a"))
		c.held("a", ttl)
	})
}

func TestRenewNeverShortens(t *testing.T) {
	bubble(t, func(c client) {
		a := try("a")
		a.LockDelay = 5 * time.Second
		c.grant(a)
		a.TTL = time.Second
		c.renewed(a)
		if st := c.held("a", ttl); st.TTL != time.Second {
			c.Errorf("the record has TTL %s, want that of the last renewal", st.TTL)
		}
		sleep(ttl - 500*time.Millisecond)
		c.renewed(a)
		c.held("a", time.Second)
		sleep(time.Second)
		c.is(picket.StatusCooling, "a", 5*time.Second)
	})
}

// GL-17, GL-18.
func TestRenewNeverCreatesARecord(t *testing.T) {
	bubble(t, func(c client) {
		c.isLost(c.renewal(try("a")), "")
		c.free()
		c.grant(try("a"))
		sleep(ttl)
		c.isLost(c.renewal(try("a")), "")
		c.free()
		c.grant(try("a"))
		c.release(try("a"))
		c.isLost(c.renewal(try("a")), "")
		c.free()
	})
}

func TestRenewOfAnothersRecordIsStolen(t *testing.T) {
	bubble(t, func(c client) {
		c.grant(try("a"))
		sleep(time.Second)
		c.isLost(c.renewal(try("b")), picket.ReasonStolen)
		c.held("a", 9*time.Second)
	})
}

func TestRenewAnswersEachClaimOnItsOwn(t *testing.T) {
	bubble(t, func(c client) {
		c.grant(try("a"))
		bad := try("a")
		bad.TTL = 0
		var got []int
		c.Renew(c.Context(), []picket.Claim{try("b"), bad, try("a")}, func(i int, err error) {
			got = append(got, i)
			switch i {
			case 0:
				c.isLost(err, picket.ReasonStolen)
			case 1:
				c.isError(err, picket.ErrInvalid)
			case 2:
				if err != nil {
					c.Error(err)
				}
			}
			// A report may use the store.
			c.held("a", ttl)
		})
		if !slices.Equal(got, []int{0, 1, 2}) {
			c.Errorf("reports for %v, want one each", got)
		}
	})
}

func TestRenewConfirmsAHandOff(t *testing.T) {
	bubble(t, func(c client) {
		c.grant(try("a"))
		c.busy(wait("b"), "a", 0)
		c.release(try("a"))
		c.renewed(wait("b"))
		c.held("b", ttl)
	})
}
