package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/picket-go/picket"
	"github.com/picket-go/picket/internal/virtualredis"
	"github.com/picket-go/picket/memstore"
)

// TestRedisDoesWhatMemoryDoes sends the same random calls to this store and to memstore, the reference model, in virtual time, and compares every answer: grants, tokens,
// who is busy for how long behind how many, reasons of losses, states.
func TestRedisDoesWhatMemoryDoes(t *testing.T) {
	t.Parallel()
	runs := 24
	if testing.Short() {
		runs = 10
	}
	for seed := range runs {
		synctest.Test(t, func(t *testing.T) {
			c := &comparison{T: t, polled: map[string]time.Time{}, rand: rand.New(rand.NewPCG(uint64(seed), 1)), memory: memstore.New(), redis: store(t, virtualredis.Start(t).Client(t))}
			for range 120 {
				if c.step(); t.Failed() {
					t.Fatalf("seed %d:\n%s", seed, strings.Join(c.log, "\n"))
				}
			}
		})
	}
}

// both is what the two stores have in common.
type both interface {
	picket.Store
	picket.Transferer
	picket.Lister
	picket.Breaker
	picket.Reissuer
}

type comparison struct {
	*testing.T
	rand   *rand.Rand
	memory both
	redis  both
	claims []picket.Claim
	tokens []int64
	polled map[string]time.Time // by claim id, the last acquire
	log    []string
}

var modelKeys = []string{"a", "b{}"}

func (c *comparison) step() {
	// Redis counts in milliseconds, and calls that come in one instant tell more than those that do not.
	if c.rand.IntN(2) == 0 {
		time.Sleep(time.Duration(c.rand.IntN(400)) * time.Millisecond)
	}
	switch key := modelKeys[c.rand.IntN(len(modelKeys))]; c.rand.IntN(12) {
	case 0, 1, 2:
		c.acquire(c.fresh(key))
	case 3, 4, 5:
		c.acquire(c.old(key))
	case 6, 7:
		cl := c.old(key)
		cl.Doubt = c.rand.IntN(4) == 0
		c.same("release", cl, func(ctx context.Context, s both) string { return show(picket.Grant{}, s.Release(ctx, cl)) })
	case 8:
		cl := c.old(key)
		c.same("renew", cl, func(ctx context.Context, s both) (got string) {
			s.Renew(ctx, []picket.Claim{cl}, func(_ int, err error) { got = show(picket.Grant{}, err) })
			return got
		})
	case 9:
		from, to := c.old(key), c.fresh(key)
		c.same("transfer from "+from.ID[:4], to, func(ctx context.Context, s both) string { return show(s.Transfer(ctx, from, to)) })
	case 10:
		if len(c.tokens) > 0 && c.rand.IntN(3) == 0 {
			token := c.tokens[len(c.tokens)-1]
			c.same(fmt.Sprint("break ", token), picket.Claim{Key: key, ID: "----"}, func(ctx context.Context, s both) string { return show(picket.Grant{}, s.Break(ctx, key, token)) })
		}
	case 11:
		cl, above := c.old(key), time.Now().Add(time.Duration(c.rand.IntN(3)-1)*time.Hour).UnixMicro()
		if c.rand.IntN(4) == 0 {
			c.same("reissue", cl, func(ctx context.Context, s both) string { return show(s.Reissue(ctx, cl, above)) })
		}
	}
	for _, key := range modelKeys {
		c.same("inspect", picket.Claim{Key: key, ID: "----"}, func(ctx context.Context, s both) string {
			st, err := s.Inspect(ctx, key)
			return fmt.Sprintf("%s %s %d ttl=%s left=%s waiters=%d %v", st.State, st.Holder.ID, st.Token, st.TTL, st.Remaining, st.Waiters, err)
		})
	}
	c.same("list", picket.Claim{ID: "----"}, func(ctx context.Context, s both) string {
		keys := map[string]bool{}
		for st, err := range s.List(ctx, "") {
			keys[fmt.Sprint(st.Key, " ", st.State, err)] = true
		}
		return strings.Join(slices.Sorted(maps.Keys(keys)), ", ")
	})
}

// fresh is a new claim with settings of all kinds; a waiter lives for 1.3 to 10 s.
func (c *comparison) fresh(key string) picket.Claim {
	ms := func(n ...int) time.Duration { return time.Duration(n[c.rand.IntN(len(n))]) * time.Millisecond }
	cl := claim(key)
	cl.TTL, cl.Queue, cl.Recheck = ms(200, 500, 3000), c.rand.IntN(3) > 0, ms(0, 100, 1000)
	cl.MinHold, cl.LockDelay = ms(0, 0, 0, 700), ms(0, 0, 0, 600)
	c.claims = append(c.claims, cl)
	c.polled[cl.ID] = time.Now()
	return cl
}

// life is how long a waiter lives without asking.
func life(cl picket.Claim) time.Duration {
	if cl.Recheck == 0 {
		return 10 * time.Second
	}
	return 3*cl.Recheck + time.Second
}

// old is a claim of key that was used before, one of the last ones.
func (c *comparison) old(key string) picket.Claim {
	var of []picket.Claim
	for _, cl := range c.claims[max(0, len(c.claims)-12):] {
		// Whether a dead waiter still has its place depends on who looked at the queue: Redis looks more often.
		if cl.Key == key && time.Since(c.polled[cl.ID]) <= life(cl) {
			of = append(of, cl)
		}
	}
	if len(of) == 0 {
		return c.fresh(key)
	}
	return of[c.rand.IntN(len(of))]
}

func (c *comparison) acquire(cl picket.Claim) {
	c.polled[cl.ID] = time.Now()
	c.same("acquire", cl, func(ctx context.Context, s both) string {
		g, err := s.Acquire(ctx, cl)
		if err == nil {
			c.tokens = append(c.tokens, g.Token)
		}
		return show(g, err)
	})
}

func (c *comparison) same(op string, cl picket.Claim, f func(context.Context, both) string) {
	want := f(c.Context(), c.memory)
	got := f(c.Context(), c.redis)
	if cl.ID == "----" && op != "list" && got == want {
		return
	}
	c.log = append(c.log, fmt.Sprintf("%s %s %s of %q queue=%v ttl=%s min=%s delay=%s recheck=%s doubt=%v -> %s",
		time.Now().Format("05.000"), op, cl.ID[:4], cl.Key, cl.Queue, cl.TTL, cl.MinHold, cl.LockDelay, cl.Recheck, cl.Doubt, got))
	// Memory remembers who was broken when the record is long gone.
	if got != want && !(strings.HasPrefix(want, `lost "broken"`) && strings.HasPrefix(got, "lost")) && !countsTheDead(got, want) {
		c.Errorf("%s\n got %s\nwant %s", op, got, want)
	}
}

// countsTheDead reports whether got is the grant want but for more waiters: within a turn, and for who has the lock already, Redis does not look at who of the line is dead.
func countsTheDead(got, want string) bool {
	g, w := strings.Fields(got), strings.Fields(want)
	if len(g) != 4 || len(w) != 4 || g[0] != w[0] || g[1] != w[1] || g[3] != w[3] {
		return false
	}
	more, errMore := strconv.Atoi(g[2])
	less, errLess := strconv.Atoi(w[2])
	return errMore == nil && errLess == nil && more > less
}

// show is an answer without what the two may tell in other words.
func show(g picket.Grant, err error) string {
	if busy, ok := errors.AsType[*picket.BusyError](err); ok {
		return fmt.Sprintf("busy by %s since %s for %s behind %d", busy.Holder.ID, busy.Holder.Since.Format("05.000"), busy.Remaining, busy.Waiters)
	}
	if lost, ok := errors.AsType[*picket.LostError](err); ok {
		return fmt.Sprintf("lost %q %d", lost.Reason, lost.Token)
	}
	if errors.Is(err, picket.ErrRefused) {
		return "refused"
	}
	return fmt.Sprintf("%d %s %d %v", g.Token, g.TTL, g.Waiters, err)
}
