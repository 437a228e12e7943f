package memstore

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/picket-go/picket"
)

// redisson#6510: a million one-shot names must not cost memory for ever.
func TestNothingPilesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New()
		const keys = 20_000
		most := 0
		for i := range keys {
			c := picket.Claim{ID: fmt.Sprint("id", i), Key: fmt.Sprint("key", i), TTL: time.Second}
			if _, err := s.Acquire(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			switch i % 3 {
			case 0: // left to expire
			case 1:
				c.Doubt = true
				if err := s.Release(t.Context(), c); err != nil {
					t.Fatal(err)
				}
			case 2:
				s.Lose(c.Key, picket.ReasonDeleted)
			}
			most = max(most, len(s.locks.m), len(s.tombs.m), len(s.losses.m))
			time.Sleep(time.Second)
		}
		if limit := 2 * int(memory/time.Second); most > limit {
			t.Errorf("up to %d entries, want at most %d", most, limit)
		}
		if len(s.tokens.m) != keys {
			t.Errorf("%d tokens, want all of the last day: %d", len(s.tokens.m), keys)
		}
		time.Sleep(tokenMemory)
		c := picket.Claim{ID: "id", Key: "key", TTL: time.Second, Doubt: true}
		if _, err := s.Acquire(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if n := len(s.tokens.m); n != 1 {
			t.Errorf("%d tokens a day later, want one", n)
		}
	})
}

func TestASweepKeepsWhatIsNotOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New()
		held := picket.Claim{ID: "a", Key: "held", TTL: 24 * time.Hour}
		waits := picket.Claim{ID: "w", Key: "held", TTL: time.Second, Queue: true, Recheck: 24 * time.Hour}
		for _, c := range []picket.Claim{held, waits} {
			_, _ = s.Acquire(t.Context(), c)
		}
		// An expired lease with a live waiter is not over, and a hand-off that lapsed is not either.
		short := picket.Claim{ID: "b", Key: "short", TTL: time.Second}
		next := picket.Claim{ID: "x", Key: "short", TTL: time.Second, Queue: true, Recheck: 24 * time.Hour}
		for _, c := range []picket.Claim{short, next} {
			_, _ = s.Acquire(t.Context(), c)
		}
		sweep := func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.locks.sweep(time.Now())
		}
		time.Sleep(time.Second)
		sweep()
		s.Lose("short", picket.ReasonDeleted) // nothing to lose
		if err := s.Release(t.Context(), short); err == nil {
			t.Error("the lease had expired, its release must tell")
		}
		time.Sleep(time.Minute)
		sweep()
		for key, waiters := range map[string]int{"held": 1, "short": 1} {
			if st, err := s.Inspect(t.Context(), key); err != nil || st.Waiters != waiters {
				t.Errorf("%s: %+v, %v; want %d waiters", key, st, err, waiters)
			}
		}
	})
}

func TestAReleasedKeyLeavesOnlyItsToken(t *testing.T) {
	s := New()
	c := picket.Claim{ID: "a", Key: "k", TTL: time.Second}
	if _, err := s.Acquire(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if err := s.Release(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if len(s.locks.m) != 0 || len(s.tombs.m) != 0 || len(s.losses.m) != 0 || len(s.tokens.m) != 1 {
		t.Errorf("%d locks, %d tombstones, %d losses, %d tokens", len(s.locks.m), len(s.tombs.m), len(s.losses.m), len(s.tokens.m))
	}
}

func TestAKeyThatIsHeldForLongDoesNotCollectDeadWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New()
		if _, err := s.Acquire(t.Context(), picket.Claim{ID: "a", Key: "k", TTL: 24 * time.Hour}); err != nil {
			t.Fatal(err)
		}
		for i := range 1000 {
			_, _ = s.Acquire(t.Context(), picket.Claim{ID: fmt.Sprint("w", i), Key: "k", TTL: time.Second, Queue: true})
			time.Sleep(time.Second)
		}
		if n := len(s.locks.m["k"].queue.line); n > 11 {
			t.Errorf("%d places, want only those of the last 10 s", n)
		}
	})
}

// DESIGN 3.6: a clock that stepped back does not keep the dead alive.
func TestALastSeenInTheFutureIsSetToNow(t *testing.T) {
	now := time.Now()
	w := waiter{seen: now.Add(time.Hour)}
	if !w.alive(now) || w.alive(now.Add(defaultLife+1)) {
		t.Error("want the waiter to live from now on for its usual life")
	}
}
