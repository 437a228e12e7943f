package redisstore_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/picket-go/picket"
	"github.com/picket-go/picket/internal/redistest"
	"github.com/picket-go/picket/redisstore"
)

// held is what all callers of a test got, by key.
type held struct {
	mu     sync.Mutex
	errs   map[string]error
	claims map[string]picket.Claim
}

// together begins an acquire for each of n keys while the server stands still, so that most of them must gather, and returns what they got when it goes on.
func together(t *testing.T, server *redistest.Server, s picket.Store, n int) *held {
	t.Helper()
	h := &held{errs: map[string]error{}, claims: map[string]picket.Claim{}}
	var wg sync.WaitGroup
	server.Stop()
	for i := range n {
		c := claim("k" + strconv.Itoa(i))
		wg.Go(func() {
			_, err := s.Acquire(t.Context(), c)
			h.mu.Lock()
			defer h.mu.Unlock()
			h.errs[c.Key], h.claims[c.Key] = err, c
		})
	}
	time.AfterFunc(20*time.Millisecond, server.Cont) // a server that stands still tells nothing that could be waited for
	wg.Wait()
	return h
}

// TestClaimsThatComeMeanwhileLeaveTogether, at most 64 in a call; a claim that comes alone is sent alone.
func TestClaimsThatComeMeanwhileLeaveTogether(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := store(t, client(t, server))
	warm := claim("warm")
	if _, err := s.Acquire(t.Context(), warm); err != nil {
		t.Fatal(err)
	}
	if err := s.Release(t.Context(), warm); err != nil {
		t.Fatal(err)
	}
	before := server.CommandStats()["evalsha"]
	const n = 200
	h := together(t, server, s, n)
	for key, err := range h.errs {
		if err != nil {
			t.Errorf("Acquire(%q) = %v", key, err)
		}
	}
	if calls := server.CommandStats()["evalsha"] - before; calls < n/64 || calls > n/4 {
		t.Errorf("%d claims took %d calls", n, calls)
	}
	for key, c := range h.claims {
		if err := s.Release(t.Context(), c); err != nil {
			t.Errorf("Release(%q) = %v", key, err)
		}
	}
}

// TestWithoutCombiningEachClaimHasItsOwnCall.
func TestWithoutCombiningEachClaimHasItsOwnCall(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := store(t, client(t, server), redisstore.WithoutCombining())
	if _, err := s.Acquire(t.Context(), claim("warm")); err != nil {
		t.Fatal(err)
	}
	before := server.CommandStats()["evalsha"]
	const n = 100
	for key, err := range together(t, server, s, n).errs {
		if err != nil {
			t.Errorf("Acquire(%q) = %v", key, err)
		}
	}
	if calls := server.CommandStats()["evalsha"] - before; calls != n {
		t.Errorf("%d claims took %d calls", n, calls)
	}
}

// TestANeighboursForeignKeyCostsNobodyItsAnswer (GL-14): each claim of a call has its own.
func TestANeighboursForeignKeyCostsNobodyItsAnswer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	c := client(t, server)
	s := store(t, c)
	foreign := map[string]bool{}
	for i := 0; i < 100; i += 7 {
		key := "k" + strconv.Itoa(i)
		foreign[key] = true
		for _, suffix := range []string{"", ":fence", ":queue"}[i%3 : i%3+1] {
			if err := c.RPush(t.Context(), "lock:{"+key+"}"+suffix, "x").Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	for key, err := range together(t, server, s, 100).errs {
		// A queue of a foreign type is told by who looks at it.
		if foreign[key] != errors.Is(err, picket.ErrRefused) {
			t.Errorf("Acquire(%q) = %v, foreign: %v", key, err, foreign[key])
		}
	}
}

// TestTheErrorOfACallReachesEachClaimOfIt, and none of them is in doubt if nothing was executed.
func TestTheErrorOfACallReachesEachClaimOfIt(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.StartProxy(t, server.Addr(), 1)
	s := store(t, behind(t, server, proxy))
	if _, err := s.Acquire(t.Context(), claim("warm")); err != nil {
		t.Fatal(err)
	}
	proxy.Sometimes(1, redistest.Answer("OOM command not allowed when used memory > 'maxmemory'."), "evalsha")
	for key, err := range together(t, server, s, 100).errs {
		if !errors.Is(err, picket.ErrRefused) || !unsent(err) {
			t.Errorf("Acquire(%q) = %v, want ErrRefused, unsent", key, err)
		}
	}
	proxy.Heal()
	// NOSCRIPT costs one more command for all of them.
	if err := server.Client(t).ScriptFlush(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	for key, err := range together(t, server, s, 100).errs {
		if err != nil {
			t.Errorf("Acquire(%q) after SCRIPT FLUSH = %v", key, err)
		}
	}
}

// TestWhoLeavesBeforeItsClaimWasSentIsNotInDoubt, and its claim is never sent.
func TestWhoLeavesBeforeItsClaimWasSentIsNotInDoubt(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	o := server.Options()
	o.PoolSize = 1
	c := redis.NewClient(o)
	t.Cleanup(func() { _ = c.Close() })
	s := store(t, c)
	if _, err := s.Acquire(t.Context(), claim("warm")); err != nil {
		t.Fatal(err)
	}
	server.Stop()
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = s.Acquire(t.Context(), claim("first")) })
	tries := 0
	ended := eventually(time.Second, func() bool { // until the first one is under way, others may be first
		tries++
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		_, err := s.Acquire(ctx, claim("second"+strconv.Itoa(tries)))
		return unsent(err) && errors.Is(err, context.DeadlineExceeded)
	})
	if !ended {
		t.Error("a claim that waited for company was in doubt when its caller left")
	}
	server.Cont()
	wg.Wait()
	if n := c.Exists(t.Context(), "lock:{first}").Val(); n != 1 {
		t.Error("the first claim has not arrived")
	}
	if _, err := s.Acquire(t.Context(), claim("last")); err != nil {
		t.Fatal(err)
	}
	if n := c.Exists(t.Context(), "lock:{second"+strconv.Itoa(tries)+"}").Val(); n != 0 {
		t.Error("a claim was sent when its caller had left")
	}
}

// TestAStuckCallDoesNotHoldUpTheOthers: what is overdue no longer counts as under way.
func TestAStuckCallDoesNotHoldUpTheOthers(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.StartProxy(t, server.Addr(), 1)
	s := store(t, behind(t, server, proxy))
	if _, err := s.Acquire(t.Context(), claim("warm")); err != nil {
		t.Fatal(err)
	}
	const stuck = 2 // as many as may be under way
	proxy.Next(stuck, redistest.Drop(redistest.Replies), "evalsha")
	var wg sync.WaitGroup
	for i := range stuck {
		wg.Go(func() { _, _ = s.Acquire(t.Context(), claim("stuck"+strconv.Itoa(i))) })
	}
	if !eventually(time.Second, func() bool { return proxy.Counts().Dropped == stuck }) {
		t.Fatal("nothing is stuck")
	}
	began := time.Now()
	for i := range 20 {
		wg.Go(func() {
			_, err := s.Acquire(t.Context(), claim("k"+strconv.Itoa(i)))
			if took := time.Since(began); err != nil || took > 600*time.Millisecond {
				t.Errorf("Acquire = %v after %v", err, took)
			}
		})
	}
	wg.Wait()
}
