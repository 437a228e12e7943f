package memstore_test

import (
	"testing"
	"time"

	"github.com/picket-go/picket"
)

func TestTokensRiseAndAreNotBelowTheTime(t *testing.T) {
	bubble(t, func(c client) {
		var last int64
		for range 5 {
			g := c.grant(try("a"))
			if g.Token <= last || g.Token < time.Now().UnixMicro() {
				c.Errorf("token %d after %d at %d µs", g.Token, last, time.Now().UnixMicro())
			}
			last = g.Token
			c.release(try("a"))
			if st := c.free(); st.Token != last {
				c.Errorf("the free key shows token %d, want the last one, %d", st.Token, last)
			}
		}
		sleep(time.Minute)
		if g := c.grant(try("a")); g.Token != time.Now().UnixMicro() {
			c.Errorf("token %d, want the time, %d", g.Token, time.Now().UnixMicro())
		}
	})
}

func TestTheLastTokenIsForgottenAfterADayAndTheNextIsLargerAllTheSame(t *testing.T) {
	bubble(t, func(c client) {
		first := c.grant(try("a"))
		c.release(try("a"))
		sleep(24 * time.Hour)
		if st := c.free(); st.Token != first.Token {
			c.Errorf("token %d after a day, want %d", st.Token, first.Token)
		}
		sleep(time.Microsecond)
		if st := c.free(); st.Token != 0 {
			c.Errorf("token %d after more than a day, want it forgotten", st.Token)
		}
		if next := c.grant(try("a")); next.Token <= first.Token {
			c.Errorf("token %d after %d", next.Token, first.Token)
		}
	})
}

func TestReissueMintsAboveATokenFromTheFuture(t *testing.T) {
	bubble(t, func(c client) {
		c.grant(try("a"))
		sleep(time.Second)
		above := time.Now().Add(48 * time.Hour).UnixMicro()
		g, err := c.Reissue(c.Context(), try("a"), above)
		if err != nil || g.Token != above+1 {
			c.Fatalf("token %d, %v; want %d", g.Token, err, above+1)
		}
		if st := c.held("a", 9*time.Second); st.Token != g.Token {
			c.Errorf("status has token %d", st.Token)
		}
		if again := c.grant(try("a")); again.Token != g.Token {
			c.Errorf("the same claim has token %d now", again.Token)
		}
		if g, err = c.Reissue(c.Context(), try("a"), above-10); err != nil || g.Token != above+2 {
			c.Errorf("a second time: %d, %v; want %d", g.Token, err, above+2)
		}
		c.release(try("a"))
		// Time alone would go below it, and it is not forgotten while it is ahead.
		sleep(30 * time.Hour)
		if next := c.grant(try("b")); next.Token != above+3 {
			c.Errorf("next token %d, want %d", next.Token, above+3)
		}
	})
}

func TestReissueIsForTheFutureOnly(t *testing.T) {
	const tenYears = 10 * 365 * 24 * time.Hour
	for name, above := range map[string]func(time.Time) int64{
		"now":          time.Time.UnixMicro,
		"past":         func(now time.Time) int64 { return now.Add(-time.Hour).UnixMicro() },
		"zero":         func(time.Time) int64 { return 0 },
		"too far":      func(now time.Time) int64 { return now.Add(tenYears).UnixMicro() + 1 },
		"near 2^53":    func(time.Time) int64 { return 1<<53 - 1 },
		"beyond 2^53":  func(time.Time) int64 { return 1<<53 + 1 },
		"largest ever": func(time.Time) int64 { return 1<<63 - 1 },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(c client) {
				before := c.grant(try("a"))
				_, err := c.Reissue(c.Context(), try("a"), above(time.Now()))
				c.isError(err, picket.ErrRefused)
				if st := c.held("a", ttl); st.Token != before.Token {
					c.Errorf("token %d, want %d as before", st.Token, before.Token)
				}
				if _, err = c.Reissue(c.Context(), try("a"), time.Now().Add(tenYears).UnixMicro()); err != nil {
					c.Errorf("ten years ahead: %v", err)
				}
			})
		})
	}
}

func TestReissueIsForTheHolderOnly(t *testing.T) {
	bubble(t, func(c client) {
		above := time.Now().Add(time.Hour).UnixMicro()
		reissue := func(id string) error {
			_, err := c.Reissue(c.Context(), try(id), above)
			return err
		}
		c.isError(reissue(""), picket.ErrInvalid)
		c.isLost(reissue("a"), "")
		g := c.grant(try("a"))
		c.isLost(reissue("b"), picket.ReasonStolen)
		if err := c.Break(c.Context(), key, g.Token); err != nil {
			c.Fatal(err)
		}
		c.isLost(reissue("a"), picket.ReasonBroken)
	})
}
