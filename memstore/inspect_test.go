package memstore_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/picket-go/picket"
)

func TestInspectTellsWhoHoldsTheKey(t *testing.T) {
	bubble(t, func(c client) {
		if st := c.free(); st != (picket.Status{Key: key, State: picket.StatusFree}) {
			c.Errorf("a key that was never granted: %+v", st)
		}
		a := try("a")
		a.Holder = picket.Holder{ID: "not this", Host: "h", PID: 7, Label: "nightly", Since: time.Unix(1, 0)}
		sleep(1500 * time.Microsecond)
		since := time.Now().Truncate(time.Millisecond)
		g := c.grant(a)
		c.busy(wait("b"), "a", 0)
		sleep(time.Second)
		want := picket.Status{
			Key: key, State: picket.StatusHeld, Token: g.Token, TTL: ttl, Remaining: 9 * time.Second, Waiters: 1,
			Holder: picket.Holder{ID: "a", Host: "h", PID: 7, Label: "nightly", Since: since},
		}
		for range 2 {
			if st := c.status(); st != want {
				c.Errorf("got  %+v\nwant %+v", st, want)
			}
		}
	})
}

func TestInspectHandsNothingOver(t *testing.T) {
	bubble(t, func(c client) {
		g := c.grant(try("z"))
		sleep(ttl - time.Second)
		c.busy(wait("a"), "z", 0)
		sleep(time.Second)
		for range 2 {
			if st := c.free(); st.Waiters != 1 || st.Token != g.Token {
				c.Errorf("%+v, want one waiter and the last token", st)
			}
		}
	})
}

func (c client) list(ctx context.Context, prefix string) (keys []string, err error) {
	for st, e := range c.List(ctx, prefix) {
		if e != nil {
			return keys, e
		}
		keys = append(keys, st.Key+":"+st.State)
	}
	return keys, nil
}

func TestListYieldsTheKeysWithARecordSorted(t *testing.T) {
	bubble(t, func(c client) {
		on := func(key string, ttl time.Duration) picket.Claim {
			return picket.Claim{ID: "id-" + key, Key: key, TTL: ttl, MinHold: time.Hour}
		}
		for _, key := range []string{"b/2", "a/1", "b/1", "b/3", "b"} {
			c.grant(on(key, time.Minute))
		}
		c.grant(on("b/0", time.Second))
		c.release(on("b/3", time.Minute))
		sleep(time.Second)
		for prefix, want := range map[string][]string{
			"":   {"a/1:held", "b:held", "b/1:held", "b/2:held", "b/3:cooling"},
			"b/": {"b/1:held", "b/2:held", "b/3:cooling"},
			"x":  nil,
		} {
			if got, err := c.list(c.Context(), prefix); err != nil || !slices.Equal(got, want) {
				c.Errorf("prefix %q: %v, %v; want %v", prefix, got, err, want)
			}
		}
	})
}

func TestListStopsWithItsConsumerOrItsContext(t *testing.T) {
	bubble(t, func(c client) {
		c.grant(try("a"))
		b := try("b")
		b.Key = key + "2"
		c.grant(b)
		n := 0
		for st := range c.List(c.Context(), "") {
			n++
			c.Lose(st.Key, picket.ReasonDeleted) // the consumer may use the store
			break
		}
		if n != 1 {
			c.Errorf("%d keys after break", n)
		}
		c.grant(try("a"))
		ctx, cancel := context.WithCancel(c.Context())
		defer cancel()
		var last error
		n = 0
		for _, err := range c.List(ctx, "") {
			n++
			last = err
			cancel()
		}
		if n != 2 || !errors.Is(last, context.Canceled) {
			c.Errorf("%d results, the last with %v; want one key and the context's error", n, last)
		}
	})
}
