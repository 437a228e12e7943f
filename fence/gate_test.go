package fence_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/picket-go/picket/fence"
)

func nothing(context.Context) error { return nil }

// admit gives token to the gate and fails the test if it is refused.
func admit(t *testing.T, g *fence.Gate, resource string, token int64) {
	t.Helper()
	if err := g.Admit(t.Context(), resource, token); err != nil {
		t.Fatalf("Admit(%q, %d): %v", resource, token, err)
	}
}

// wantStale fails the test unless err is a *StaleTokenError with these values.
func wantStale(t *testing.T, err error, want fence.StaleTokenError) {
	t.Helper()
	stale, ok := errors.AsType[*fence.StaleTokenError](err)
	if !ok || *stale != want {
		t.Errorf("got %v, want %v", err, &want)
	}
}

func TestGatePassesATokenThatIsNotBelowTheHighestSeen(t *testing.T) {
	t.Parallel()
	var g fence.Gate
	for _, token := range []int64{5, 5, 6, 1 << 62} {
		ran := false
		err := g.Do(t.Context(), "r", token, func(context.Context) error { ran = true; return nil })
		if err != nil || !ran {
			t.Errorf("token %d: err %v, ran %t", token, err, ran)
		}
	}
}

// GL-32: the holder that slept past its lease has the older token, and its write is refused.
func TestGateRefusesASmallerTokenWithTheNumbersAndDoesNotRunIt(t *testing.T) {
	t.Parallel()
	var g fence.Gate
	admit(t, &g, "r", 34)
	err := g.Do(t.Context(), "r", 33, func(context.Context) error {
		t.Error("fn ran with a stale token")
		return nil
	})
	wantStale(t, err, fence.StaleTokenError{Resource: "r", Have: 33, Seen: 34})
	wantStale(t, g.Admit(t.Context(), "r", 1), fence.StaleTokenError{Resource: "r", Have: 1, Seen: 34})
	admit(t, &g, "r", 34)
}

func TestGateKeepsResourcesApart(t *testing.T) {
	t.Parallel()
	var g fence.Gate
	admit(t, &g, "a", 9)
	err := g.Do(t.Context(), "a", 9, func(ctx context.Context) error {
		return g.Do(ctx, "b", 1, nothing)
	})
	if err != nil {
		t.Errorf("the mark or the mutex of a stands in the way of b: %v", err)
	}
}

func TestGateRefusesATokenThatNoStoreGrants(t *testing.T) {
	t.Parallel()
	for _, token := range []int64{0, -1} {
		var g fence.Gate
		if err := g.Do(t.Context(), "r", token, nothing); !errors.Is(err, fence.ErrNoToken) || !strings.Contains(err.Error(), `"r"`) {
			t.Errorf("token %d: got %v, want ErrNoToken that names the resource", token, err)
		}
	}
}

func TestGateReturnsTheErrorOfFnAndKeepsTheMark(t *testing.T) {
	t.Parallel()
	var g fence.Gate
	broken := errors.New("disk full")
	if err := g.Do(t.Context(), "r", 7, func(context.Context) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("got %v, want fn's error", err)
	}
	wantStale(t, g.Admit(t.Context(), "r", 6), fence.StaleTokenError{Resource: "r", Have: 6, Seen: 7})
}

func TestGateRaisesTheMarkBeforeFnRuns(t *testing.T) {
	t.Parallel()
	var g fence.Gate
	err := g.Do(t.Context(), "r", 2, func(context.Context) error {
		// Not fn's context: this is another caller, who must be told at once although the gate is taken.
		wantStale(t, g.Admit(t.Context(), "r", 1), fence.StaleTokenError{Resource: "r", Have: 1, Seen: 2})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestGateIsReleasedWhenFnPanicsOrExits(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(){
		"panic":  func() { panic("fn failed") },
		"goexit": runtime.Goexit,
	} {
		var g fence.Gate
		var wg sync.WaitGroup
		wg.Go(func() {
			defer func() { _ = recover() }()
			_ = g.Do(t.Context(), "r", 7, func(context.Context) error { end(); return nil })
		})
		wg.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		if err := g.Admit(ctx, "r", 7); err != nil {
			t.Errorf("after %s: %v", name, err)
		}
		wantStale(t, g.Admit(ctx, "r", 6), fence.StaleTokenError{Resource: "r", Have: 6, Seen: 7})
		cancel()
	}
}

func TestGateStopsWaitingWhenTheContextEndsAndSaysWhy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var g fence.Gate
		entered, leave := make(chan struct{}), make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			_ = g.Do(t.Context(), "r", 1, func(context.Context) error { close(entered); <-leave; return nil })
		})
		<-entered

		why := errors.New("lease is lost")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, why)
		defer cancel()
		begun := time.Now()
		err := g.Do(ctx, "r", 3, func(context.Context) error {
			t.Error("fn ran although ctx had ended")
			return nil
		})
		if took := time.Since(begun); took != time.Second {
			t.Errorf("waited %s, want 1s", took)
		}
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, why) || !strings.Contains(err.Error(), `"r"`) {
			t.Errorf("got %v, want the ctx error, its cause and the resource", err)
		}
		close(leave)
		wg.Wait()
		admit(t, &g, "r", 2) // who did not enter has raised no mark
	})
}

func TestGateDoesNotRunFnWithAContextThatHasEnded(t *testing.T) {
	t.Parallel()
	var g fence.Gate
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 { // a select between a free gate and an ended ctx would pass half of them
		if err := g.Do(ctx, "r", 1, nothing); !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v, want context.Canceled", err)
		}
	}
}

func TestGateRefusesAWaiterThatBecameStaleWhileItWaited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var g fence.Gate
		entered, leave := make(chan struct{}), make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			_ = g.Do(t.Context(), "r", 1, func(context.Context) error { close(entered); <-leave; return nil })
		})
		<-entered
		wg.Go(func() { admit(t, &g, "r", 3) })
		synctest.Wait() // 3 waits in front of 2
		wg.Go(func() {
			wantStale(t, g.Do(t.Context(), "r", 2, nothing), fence.StaleTokenError{Resource: "r", Have: 2, Seen: 3})
		})
		synctest.Wait()
		close(leave)
		wg.Wait()
	})
}

func TestGateAdmitWaitsForTheSmallerTokenThatIsInside(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var g fence.Gate
		var inside atomic.Bool
		entered := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			_ = g.Do(t.Context(), "r", 1, func(context.Context) error {
				inside.Store(true)
				defer inside.Store(false)
				close(entered)
				time.Sleep(time.Minute)
				return nil
			})
		})
		<-entered
		admit(t, &g, "r", 2)
		if inside.Load() {
			t.Error("token 2 is admitted while token 1 is at work")
		}
		wg.Wait()
	})
}

func TestGateRefusesToWaitForItself(t *testing.T) {
	t.Parallel()
	var g, other fence.Gate
	var kept context.Context
	err := g.Do(t.Context(), "r", 1, func(ctx context.Context) error {
		kept = ctx
		if err := other.Do(ctx, "r", 1, nothing); err != nil {
			t.Errorf("another gate is another mutex: %v", err)
		}
		return g.Do(ctx, "r", 1, nothing)
	})
	if err == nil || errors.Is(err, fence.ErrStale) || !strings.Contains(err.Error(), `"r"`) {
		t.Errorf("got %v, want a refusal that names the resource", err)
	}
	if err := g.Do(kept, "r", 1, nothing); err != nil {
		t.Errorf("fn has returned, so there is nothing to wait for: %v", err)
	}
}

func TestGateHandsFnTheValuesAndTheEndOfTheCallersContext(t *testing.T) {
	t.Parallel()
	var g fence.Gate
	ctx, cancel := context.WithCancel(fence.NewContext(t.Context(), "r", fixed{token: 4}))
	_ = g.Do(ctx, "r", 4, func(inner context.Context) error {
		if l, err := fence.FromContext(inner, "r"); err != nil || l.Token() != 4 {
			t.Errorf("got %v, %v, want the lease", l, err)
		}
		cancel()
		if inner.Err() == nil {
			t.Error("fn's context outlives the caller's")
		}
		return nil
	})
}

func TestGateLetsOneInAtATimeWithRisingTokens(t *testing.T) {
	t.Parallel()
	var g fence.Gate
	resources := []string{"a", "b", "c"}
	type journal struct {
		inside bool // plain on purpose: the race detector checks the mutex too
		tokens []int64
	}
	journals := map[string]*journal{}
	for _, r := range resources {
		journals[r] = &journal{}
	}
	var refused atomic.Int64
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 200 {
				r, token := resources[rand.IntN(len(resources))], rand.Int64N(1000)+1
				err := g.Do(t.Context(), r, token, func(context.Context) error {
					j := journals[r]
					if j.inside {
						t.Error("two inside at once")
					}
					j.inside = true
					j.tokens = append(j.tokens, token)
					runtime.Gosched()
					j.inside = false
					return nil
				})
				if errors.Is(err, fence.ErrStale) {
					refused.Add(1)
				} else if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	passed := int64(0)
	for r, j := range journals {
		passed += int64(len(j.tokens))
		if !slices.IsSorted(j.tokens) {
			t.Errorf("tokens of %s went back: %v", r, j.tokens)
		}
	}
	if passed+refused.Load() != 16*200 {
		t.Errorf("%d passed and %d refused of %d", passed, refused.Load(), 16*200)
	}
}
