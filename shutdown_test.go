package picket_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/picket-go/picket"
	"github.com/picket-go/picket/memstore"
)

func shutdown(t *testing.T, l *picket.Locker) {
	t.Helper()
	if err := l.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestShutdownRefusesNewClaims(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := onMemory()
		l := picket.New(store)
		shutdown(t, l)
		for _, locker := range []*picket.Locker{l, l.With(picket.WithTTL(time.Second))} {
			_, acquired := locker.Acquire(t.Context(), "k")
			_, tried := locker.TryAcquire(t.Context(), "k")
			nothing := func(context.Context, *picket.Lease) error { t.Error("fn has run"); return nil }
			for _, err := range []error{acquired, tried, locker.Do(t.Context(), "k", nothing), locker.TryDo(t.Context(), "k", nothing)} {
				wantIs(t, err, picket.ErrClosed)
			}
		}
		if n := store.acquires.Load(); n != 0 {
			t.Errorf("%d requests", n)
		}
		shutdown(t, l) // once more
		shutdown(t, l.With())
	})
}

func TestShutdownEndsWaitersWithErrClosed(t *testing.T) {
	for name, newStore := range everyStore {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				store := newStore()
				held := acquire(t, picket.New(store), "k")
				l := picket.New(store)
				errs := make(chan error)
				for range 5 {
					go func() { _, err := l.Acquire(t.Context(), "k"); errs <- err }()
				}
				time.Sleep(time.Second)
				if d := took(func() { shutdown(t, l) }); d != 0 {
					t.Errorf("took %s", d)
				}
				for range 5 {
					wantIs(t, <-errs, picket.ErrClosed)
				}
				wantIdle(t, l)
				release(t, held)
				wantFree(t, store, "k")
			})
		})
	}
}

func TestShutdownCancelsContextsAndWaitsForReleases(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := onMemory()
		l := picket.New(store, picket.WithTTL(time.Second))
		worked := make(chan error)
		go func() {
			worked <- l.Do(t.Context(), "k", func(ctx context.Context, le *picket.Lease) error {
				<-ctx.Done()
				wantIs(t, context.Cause(ctx), picket.ErrClosed)
				wantIs(t, le.Check(), picket.ErrClosed)
				wantIs(t, context.Cause(le.Context(t.Context())), picket.ErrClosed)
				time.Sleep(5 * time.Second) // cleaning up, while the lease is still renewed
				if st, _ := store.Inspect(t.Context(), "k"); st.Holder.ID != le.Holder().ID {
					t.Errorf("the key is %s while the work goes on", st.State)
				}
				return nil
			})
		}()
		time.Sleep(time.Minute)
		if d := took(func() { shutdown(t, l) }); d != 5*time.Second {
			t.Errorf("took %s", d)
		}
		if err := <-worked; err != nil {
			t.Errorf("the work was done under a good lease: %v", err)
		}
		wantFree(t, store.Store, "k")
		wantIdle(t, l)
	})
}

func TestShutdownSaysHowManyLeasesAreLeftWhenItsCtxEnds(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := onMemory()
		l := picket.New(store, picket.WithTTL(time.Second))
		for i := range 3 {
			acquire(t, l, fmt.Sprint(i))
		}
		ctx, cancel := context.WithTimeoutCause(t.Context(), 2*time.Second, errors.New("SIGKILL comes"))
		defer cancel()
		var err error
		if d := took(func() { err = l.Shutdown(ctx) }); d != 2*time.Second {
			t.Errorf("took %s", d)
		}
		wantIs(t, err, context.DeadlineExceeded, context.Cause(ctx))
		if !strings.Contains(err.Error(), "3 leases") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q", err)
		}
		// They are not renewed any more, and end with their TTL.
		before := store.renews.Load()
		time.Sleep(time.Second)
		if n := store.renews.Load(); n != before {
			t.Errorf("%d renewals after the end", n-before)
		}
		for i := range 3 {
			wantFree(t, store.Store, fmt.Sprint(i))
		}
		wantIdle(t, l)
		shutdown(t, l)
	})
}

func TestTwoShutdownsAtOnceBothWait(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := picket.New(memstore.New())
		le := acquire(t, l, "k")
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				if d := took(func() { shutdown(t, l) }); d != time.Second {
					t.Errorf("took %s", d)
				}
			})
		}
		time.Sleep(time.Second)
		release(t, le)
		wg.Wait()
	})
}

// GL-67: 10,000 acquires and releases, half of them cancelled, then Shutdown; the store may be out of reach. Nothing is left, in bounded time.
func TestShutdownIsBoundedAlsoWhenTheStoreIsOutOfReach(t *testing.T) {
	for name, answer := range map[string]func(context.Context) error{
		"it works": func(context.Context) error { return nil },
		"it fails": func(context.Context) error { return errWire },
		"it hangs": hang,
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				store := onMemory()
				down := make(chan struct{})
				network := func(ctx context.Context) error {
					select {
					case <-down:
						return answer(ctx)
					case <-time.After(time.Duration(rand.IntN(200)) * time.Microsecond):
						return nil
					case <-ctx.Done():
						return ctx.Err()
					}
				}
				store.acquire = func(ctx context.Context, c picket.Claim) (g picket.Grant, err error) {
					if err := network(ctx); err != nil {
						return g, err
					}
					return store.Store.Acquire(ctx, c)
				}
				store.release = func(ctx context.Context, c picket.Claim) error {
					if err := network(ctx); err != nil {
						return err
					}
					return store.Store.Release(ctx, c)
				}
				store.renew = func(ctx context.Context, cs []picket.Claim, report func(int, error)) {
					if network(ctx) == nil {
						store.Store.Renew(ctx, cs, report)
					}
				}
				l := picket.New(store)
				var wg sync.WaitGroup
				for range 100 {
					wg.Go(func() {
						for round := range 100 {
							ctx, cancel := context.WithCancel(t.Context())
							if round%2 == 0 {
								time.AfterFunc(time.Duration(rand.IntN(300))*time.Microsecond, cancel)
							}
							if le, err := l.Acquire(ctx, fmt.Sprint(rand.IntN(50))); err == nil {
								_ = le.Release(ctx)
							}
							cancel()
						}
					})
				}
				wg.Wait()
				var waiting sync.WaitGroup
				for i := range 20 { // one of two holds, the other waits
					waiting.Go(func() {
						le, err := l.Acquire(t.Context(), fmt.Sprint(i/2))
						if err == nil {
							<-le.Done()
							_ = le.Release(context.WithoutCancel(t.Context()))
						}
					})
				}
				time.Sleep(time.Minute)
				close(down)
				time.Sleep(500 * time.Millisecond)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				var err error
				if d := took(func() { err = l.Shutdown(ctx) }); d > 2*time.Second {
					t.Errorf("took %s", d)
				}
				if (err == nil) != (name == "it works") {
					t.Errorf("%v", err)
				}
				waiting.Wait()
				wantIdle(t, l)
			})
		})
	}
}

// A Renew that repeats when Shutdown comes ends then, and does not spin.
func TestShutdownEndsARenewThatRepeats(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := onMemory()
		store.renew = func(_ context.Context, _ []picket.Claim, report func(int, error)) {
			if store.renews.Load() > 10_000 {
				time.Sleep(time.Second)
			}
			report(0, errWire)
		}
		l := picket.New(store)
		le := acquire(t, l, "k")
		renewed := make(chan error)
		go func() { renewed <- le.Renew(t.Context(), 0) }()
		time.Sleep(100 * time.Millisecond)
		go shutdown(t, l)
		synctest.Wait()
		wantIs(t, <-renewed, picket.ErrUnavailable)
		if n := store.renews.Load(); n > 20 {
			t.Errorf("%d renewals", n)
		}
		release(t, le)
	})
}
