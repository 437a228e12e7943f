package memstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/picket-go/picket"
)

// calls is every call that can fail, on a key that a holds and w waits for.
func calls(ctx context.Context, c client, token int64) map[string]error {
	errs := map[string]error{"renew": c.renewalWith(ctx, try("a"))}
	_, errs["acquire"] = c.Acquire(ctx, try("a"))
	errs["release"] = c.Release(ctx, try("a"))
	_, errs["inspect"] = c.Inspect(ctx, key)
	_, _, errs["watch"] = c.Watch(ctx, wait("w"))
	_, errs["transfer"] = c.Transfer(ctx, try("a"), try("b"))
	_, errs["list"] = c.list(ctx, "")
	errs["break"] = c.Break(ctx, key, token)
	_, errs["reissue"] = c.Reissue(ctx, try("a"), time.Now().Add(time.Hour).UnixMicro())
	return errs
}

func (c client) renewalWith(ctx context.Context, cl picket.Claim) (err error) {
	c.Renew(ctx, []picket.Claim{cl}, func(_ int, e error) { err = e })
	return err
}

func TestFailIsAnOutageOfEveryCall(t *testing.T) {
	bubble(t, func(c client) {
		g := c.grant(try("a"))
		c.busy(wait("w"), "a", 0)
		before := c.status()
		outage := errors.New("outage")
		c.Fail(outage)
		for call, err := range calls(c.Context(), c, g.Token) {
			if !errors.Is(err, outage) {
				c.Errorf("%s: %v", call, err)
			}
		}
		c.Fail(nil)
		if st := c.status(); st != before {
			c.Errorf("%+v, want as before: %+v", st, before)
		}
		c.renewed(try("a"))
	})
}

func TestLeasesEndDuringAnOutage(t *testing.T) {
	bubble(t, func(c client) {
		c.grant(try("a"))
		c.Fail(picket.ErrUnavailable)
		sleep(ttl)
		c.Fail(nil)
		c.free()
	})
}

func TestNothingIsDoneWhenTheContextHasEnded(t *testing.T) {
	bubble(t, func(c client) {
		g := c.grant(try("a"))
		c.busy(wait("w"), "a", 0)
		before := c.status()
		ctx, cancel := context.WithCancel(c.Context())
		cancel()
		for call, err := range calls(ctx, c, g.Token) {
			if !errors.Is(err, context.Canceled) {
				c.Errorf("%s: %v", call, err)
			}
		}
		if st := c.status(); st != before {
			c.Errorf("%+v, want as before: %+v", st, before)
		}
	})
}
