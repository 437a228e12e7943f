package memstore_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/picket-go/picket"
	"github.com/picket-go/picket/memstore"
)

const (
	key = "job"
	ttl = 10 * time.Second
)

// client drives one Store in virtual time and says what it must answer.
type client struct {
	*testing.T
	*memstore.Store
}

// bubble runs a test with its own clock, which moves only by sleep.
func bubble(t *testing.T, test func(c client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(client{t, memstore.New()}) })
}

// try is a claim that does not wait, wait one that does.
func try(id string) picket.Claim {
	return picket.Claim{ID: id, Key: key, TTL: ttl, Holder: picket.Holder{Host: "host-" + id}}
}

func wait(id string) picket.Claim {
	c := try(id)
	c.Queue = true
	return c
}

func doubtful(c picket.Claim) picket.Claim {
	c.Doubt = true
	return c
}

func sleep(d time.Duration) { time.Sleep(d) }

func (c client) grant(cl picket.Claim) picket.Grant {
	c.Helper()
	g, err := c.Acquire(c.Context(), cl)
	if err != nil {
		c.Fatalf("acquire of %s: %v, want a grant", cl.ID, err)
	}
	return g
}

// busy wants the claim to be refused because of holder, with so many live waiters in front.
func (c client) busy(cl picket.Claim, holder string, ahead int) *picket.BusyError {
	c.Helper()
	_, err := c.Acquire(c.Context(), cl)
	return c.isBusy(err, holder, ahead)
}

func (c client) isBusy(err error, holder string, ahead int) *picket.BusyError {
	c.Helper()
	busy, ok := errors.AsType[*picket.BusyError](err)
	if !ok {
		c.Fatalf("got %v, want a *BusyError because of %q", err, holder)
	}
	if busy.Holder.ID != holder || busy.Waiters != ahead || busy.Key != key {
		c.Fatalf("busy: key %q, holder %q, %d waiters before; want %q, %q, %d", busy.Key, busy.Holder.ID, busy.Waiters, key, holder, ahead)
	}
	return busy
}

func (c client) release(cl picket.Claim) {
	c.Helper()
	if err := c.Release(c.Context(), cl); err != nil {
		c.Fatalf("release of %s: %v", cl.ID, err)
	}
}

func (c client) renewal(cl picket.Claim) (err error) {
	c.Helper()
	reports := 0
	c.Renew(c.Context(), []picket.Claim{cl}, func(i int, e error) {
		err = e
		reports++
		if i != 0 {
			c.Errorf("report for claim %d of 1", i)
		}
	})
	if reports != 1 {
		c.Fatalf("%d reports, want one", reports)
	}
	return err
}

func (c client) renewed(cl picket.Claim) {
	c.Helper()
	if err := c.renewal(cl); err != nil {
		c.Fatalf("renewal of %s: %v", cl.ID, err)
	}
}

func (c client) isLost(err error, reason picket.Reason) *picket.LostError {
	c.Helper()
	lost, ok := errors.AsType[*picket.LostError](err)
	if !ok {
		c.Fatalf("got %v, want a *LostError", err)
	}
	if lost.Reason != reason || lost.Key != key || !lost.At.Equal(time.Now()) {
		c.Fatalf("lost %q because %q at %s, want %q because %q now", lost.Key, lost.Reason, lost.At, key, reason)
	}
	return lost
}

func (c client) isError(err, want error) {
	c.Helper()
	if !errors.Is(err, want) {
		c.Fatalf("got %v, want %v", err, want)
	}
}

func (c client) status() picket.Status {
	c.Helper()
	st, err := c.Inspect(c.Context(), key)
	if err != nil {
		c.Fatal(err)
	}
	return st
}

// is wants the key in this state, with this holder and so much time left.
func (c client) is(state, holder string, left time.Duration) picket.Status {
	c.Helper()
	st := c.status()
	if st.State != state || st.Holder.ID != holder || st.Remaining != left {
		c.Fatalf("%s by %q for %s; want %s by %q for %s", st.State, st.Holder.ID, st.Remaining, state, holder, left)
	}
	return st
}

func (c client) held(holder string, left time.Duration) picket.Status {
	c.Helper()
	return c.is(picket.StatusHeld, holder, left)
}

func (c client) free() picket.Status {
	c.Helper()
	return c.is(picket.StatusFree, "", 0)
}
