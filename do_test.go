package picket_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/picket-go/picket"
	"github.com/picket-go/picket/fence"
	"github.com/picket-go/picket/memstore"
)

var errJob = errors.New("work failed")

func TestDoAcquiresRunsAndReleases(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := memstore.New()
		l := picket.New(store)
		for name, do := range map[string]func(context.Context, string, func(context.Context, *picket.Lease) error) error{"Do": l.Do, "TryDo": l.TryDo} {
			for _, want := range []error{nil, errJob} {
				var during context.Context
				err := do(t.Context(), "k", func(ctx context.Context, le *picket.Lease) error {
					during = ctx
					if st, _ := store.Inspect(ctx, "k"); st.Holder.ID != le.Holder().ID || st.Token != le.Token() || ctx.Err() != nil || le.Check() != nil {
						t.Errorf("%s: runs without its lease: %+v", name, st)
					}
					return want
				})
				if err != want { //nolint:errorlint // it is returned as it is
					t.Errorf("%s: %v, want %v", name, err, want)
				}
				if cause := context.Cause(during); !errors.Is(cause, picket.ErrReleased) {
					t.Errorf("%s: the context's cause is %v", name, cause)
				}
				wantFree(t, store, "k")
			}
		}
		wantIdle(t, l)
	})
}

func TestTheContextOfDoIsAChildOfTheCallers(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		type name struct{}
		ctx, cancel := context.WithCancelCause(context.WithValue(t.Context(), name{}, "v"))
		l := picket.New(memstore.New())
		err := l.Do(ctx, "k", func(ctx context.Context, le *picket.Lease) error {
			if ctx.Value(name{}) != "v" {
				t.Error("the values are gone")
			}
			cancel(errJob)
			<-ctx.Done()
			if le.Check() != nil {
				t.Errorf("the end of ctx is not the end of the lease: %v", le.Check())
			}
			return context.Cause(ctx)
		})
		if !errors.Is(err, errJob) || errors.Is(err, picket.ErrLost) {
			t.Errorf("got %v", err)
		}
	})
}

func TestDoReleasesWhenFnPanics(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := memstore.New()
		l := picket.New(store)
		func() {
			defer func() {
				if p := recover(); p != "boom" {
					t.Errorf("recovered %v", p)
				}
			}()
			_ = l.Do(t.Context(), "k", func(context.Context, *picket.Lease) error { panic("boom") })
		}()
		wantFree(t, store, "k")
		wantIdle(t, l)
	})
}

func TestDoReleasesWhenFnEndsItsGoroutine(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := memstore.New()
		l := picket.New(store)
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			_ = l.Do(t.Context(), "k", func(context.Context, *picket.Lease) error { runtime.Goexit(); return nil })
			t.Error("Do returned")
		}()
		<-gone
		wantFree(t, store, "k")
		wantIdle(t, l)
	})
}

// Do returns nil only if the lease was good when fn returned.
func TestDoReturnsTheLossThatFnDidNotSee(t *testing.T) {
	for name, c := range map[string]struct {
		fn   error
		want []error
	}{
		"fn returns nil":              {nil, []error{picket.ErrLost}},
		"fn returns its own error":    {errJob, []error{errJob, picket.ErrLost}},
		"fn returns the context's":    {context.Canceled, []error{context.Canceled, picket.ErrLost}},
		"fn returns the loss as well": {&picket.LostError{Key: "k", Reason: picket.ReasonStolen}, []error{picket.ErrLost}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				store := memstore.New()
				l := picket.New(store)
				err := l.Do(t.Context(), "k", func(ctx context.Context, _ *picket.Lease) error {
					store.Lose("k", picket.ReasonStolen)
					<-ctx.Done()
					wantReason(t, context.Cause(ctx), picket.ReasonStolen)
					return c.fn
				})
				wantIs(t, err, c.want...)
				wantReason(t, err, picket.ReasonStolen)
				if strings.Contains(err.Error(), "\n") {
					t.Errorf("%q has several lines", err)
				}
			})
		})
	}
}

func TestDoSeesALossThatNobodyToldOf(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := memstore.New()
		l := picket.New(store)
		err := l.Do(t.Context(), "k", func(context.Context, *picket.Lease) error {
			store.Lose("k", picket.ReasonDeleted)
			return nil // the next renewal is ten seconds off
		})
		wantReason(t, err, picket.ReasonDeleted)
	})
}

// A lease that ended by our clock is lost although the store would still release it.
func TestDoIsNotFooledByAReleaseThatStillWorks(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := memstore.New()
		l := picket.New(store, picket.WithoutRenewal(), picket.WithTTL(time.Second))
		err := l.Do(t.Context(), "k", func(context.Context, *picket.Lease) error {
			time.Sleep(950 * time.Millisecond) // after the contexts' end, before the store's
			return nil
		})
		wantReason(t, err, picket.ReasonExpired)
		wantFree(t, store, "k")
	})
}

func TestABusyErrorOfFnForTheSameKeyDoesNotSayThatFnHasNotRun(t *testing.T) {
	t.Parallel()
	l := picket.New(memstore.New())
	for _, inner := range []error{&picket.BusyError{Key: "k"}, fmt.Errorf("nested: %w (%w)", &picket.BusyError{Key: "k"}, errJob)} {
		err := l.TryDo(t.Context(), "k", func(context.Context, *picket.Lease) error { return inner })
		if busy, ok := errors.AsType[*picket.BusyError](err); ok || errors.Is(err, picket.ErrBusy) {
			t.Errorf("%v looks as if the key was busy: %v", err, busy)
		}
		if err == nil || !strings.Contains(err.Error(), "k") {
			t.Errorf("the error is gone: %v", err)
		}
	}
	err := l.TryDo(t.Context(), "k", func(context.Context, *picket.Lease) error {
		return fmt.Errorf("%w: %w", &picket.BusyError{Key: "k"}, errJob)
	})
	wantIs(t, err, errJob)

	err = l.TryDo(t.Context(), "k", func(context.Context, *picket.Lease) error { return &picket.BusyError{Key: "other"} })
	if busy, ok := errors.AsType[*picket.BusyError](err); !ok || busy.Key != "other" {
		t.Errorf("another key's *BusyError became %v", err)
	}
}

func TestTryDoDoesNotRunFnOnABusyKey(t *testing.T) {
	t.Parallel()
	store := memstore.New()
	held := acquire(t, picket.New(store), "k")
	err := picket.New(store).TryDo(t.Context(), "k", func(context.Context, *picket.Lease) error { t.Error("fn has run"); return nil })
	if busy, ok := errors.AsType[*picket.BusyError](err); !ok || busy.Key != "k" {
		t.Errorf("got %v", err)
	}
	release(t, held)
}

func TestANilFunctionIsInvalid(t *testing.T) {
	t.Parallel()
	store := onMemory()
	wantIs(t, picket.New(store).Do(t.Context(), "k", nil), picket.ErrInvalid)
	wantIs(t, picket.New(store).TryDo(t.Context(), "k", nil), picket.ErrInvalid)
	if store.acquires.Load() != 0 {
		t.Error("something was sent")
	}
}

// The work is done; only the release went unanswered.
func TestDoReturnsUncertainWhenTheReleaseWentUnanswered(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := onMemory()
		store.release = func(ctx context.Context, _ picket.Claim) error { return hang(ctx) }
		l := picket.New(store)
		var err error
		if d := took(func() {
			err = l.Do(t.Context(), "k", func(context.Context, *picket.Lease) error { return nil })
		}); d < 2900*time.Millisecond || d > 3*time.Second {
			t.Errorf("waited %s for the release", d)
		}
		wantIs(t, err, picket.ErrUncertain)
		if errors.Is(err, picket.ErrLost) {
			t.Errorf("%v", err)
		}
	})
}

func TestAcquireUnderDoOfTheSameKeyIsRefusedAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := onMemory()
		l := picket.New(store)
		again := picket.New(store) // another Locker of the same store waits for the same record
		err := l.Do(t.Context(), "k", func(ctx context.Context, le *picket.Lease) error {
			before := store.acquires.Load()
			for _, from := range []context.Context{ctx, le.Context(t.Context()), context.WithoutCancel(ctx)} {
				for _, locker := range []*picket.Locker{l, l.With(), again} {
					_, waited := locker.Acquire(from, "k")
					for _, err := range []error{waited, locker.Do(from, "k", func(context.Context, *picket.Lease) error { return nil })} {
						wantIs(t, err, picket.ErrInvalid)
						if !strings.Contains(err.Error(), fmt.Sprintf("%q", "k")) {
							t.Errorf("%q does not name the key", err)
						}
					}
				}
			}
			if n := store.acquires.Load() - before; n != 0 {
				t.Errorf("%d requests were sent", n)
			}
			_, tried := l.TryAcquire(ctx, "k") // does not wait: the key is held, by whom is no matter
			wantIs(t, tried, picket.ErrBusy)
			return l.Do(ctx, "another", func(context.Context, *picket.Lease) error { return nil })
		})
		if err != nil {
			t.Error(err)
		}
	})
}

func TestAKeyOfAnotherStoreIsAnotherLock(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a, b := picket.New(memstore.New()), picket.New(memstore.New())
		err := a.Do(t.Context(), "k", func(ctx context.Context, outer *picket.Lease) error {
			return b.Do(ctx, "k", func(ctx context.Context, inner *picket.Lease) error {
				if le, ok := picket.FromContext(ctx, "k"); !ok || le != inner {
					t.Error("FromContext does not find the innermost")
				}
				// The outer one is still in the call chain.
				_, err := a.Acquire(ctx, "k")
				wantIs(t, err, picket.ErrInvalid)
				_, err = b.Acquire(ctx, "k")
				wantIs(t, err, picket.ErrInvalid)
				return nil
			})
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// valueStore is a store that is no pointer; as a decorator it may hold one that cannot be compared.
type valueStore struct{ picket.Store }

type sliceStore struct {
	picket.Store
	_ []int
}

func TestStoresThatCannotBeComparedDoNotPanic(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		for _, store := range []picket.Store{
			valueStore{memstore.New()},
			sliceStore{Store: memstore.New()},
			valueStore{sliceStore{Store: memstore.New()}},
		} {
			l := picket.New(store)
			err := l.Do(t.Context(), "k", func(ctx context.Context, _ *picket.Lease) error {
				_, err := picket.New(store).TryAcquire(ctx, "k")
				if err == nil {
					t.Errorf("%T: two hold the key", store)
				}
				_, err = l.Acquire(ctx, "k")
				wantIs(t, err, picket.ErrInvalid)
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		}
	})
}

func TestAcquireIsAllowedAgainAfterReleaseOrLoss(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := memstore.New()
		l := picket.New(store)
		le := acquire(t, l, "k")
		ctx := context.WithoutCancel(le.Context(t.Context()))
		release(t, le)
		again, err := l.Acquire(ctx, "k")
		if err != nil {
			t.Fatal(err)
		}
		ctx = context.WithoutCancel(again.Context(t.Context()))
		store.Lose("k", picket.ReasonDeleted)
		_, _ = again.Confirm(t.Context())
		third, err := l.Acquire(ctx, "k")
		if err != nil {
			t.Fatal(err)
		}
		release(t, third)
	})
}

func TestFromContextFindsEachKeysLease(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := picket.New(memstore.New())
		err := l.Do(t.Context(), "a", func(ctx context.Context, a *picket.Lease) error {
			return l.Do(ctx, "b", func(ctx context.Context, b *picket.Lease) error {
				for key, want := range map[string]*picket.Lease{"a": a, "b": b} {
					if le, ok := picket.FromContext(ctx, key); !ok || le != want {
						t.Errorf("%q: %v %v", key, le, ok)
					}
					if guard, err := fence.FromContext(ctx, key); err != nil || guard.Token() != want.Token() {
						t.Errorf("%q: the guard finds %v, %v", key, guard, err)
					}
				}
				if le, ok := picket.FromContext(ctx, "c"); ok || le != nil {
					t.Errorf("found %v", le)
				}
				return nil
			})
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// L18, redisson#5000, #6878: the handle is the identity, not the goroutine.
func TestALeaseIsReleasedByAnotherGoroutine(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := picket.New(memstore.New())
		got := make(chan *picket.Lease)
		go func() { got <- acquire(t, l, "k") }()
		le := <-got
		done := make(chan error)
		for range 5 {
			go func() { done <- le.Release(t.Context()) }()
		}
		for range 5 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		synctest.Wait()
		wantIdle(t, l)
	})
}
