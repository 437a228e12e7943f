package picket_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/picket-go/picket"
	"github.com/picket-go/picket/memstore"
)

func TestAnObserverSeesAcquireAndRelease(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		type span struct{}
		var acquired []picket.AcquireEvent
		var released []picket.ReleaseEvent
		o := picket.Observer{
			AcquireStart: func(ctx context.Context, key string) context.Context { return context.WithValue(ctx, span{}, key) },
			AcquireEnd: func(ctx context.Context, e picket.AcquireEvent) {
				if ctx.Value(span{}) != e.Key {
					t.Errorf("the context of %q is not the one that AcquireStart returned", e.Key)
				}
				acquired = append(acquired, e)
			},
			ReleaseEnd: func(_ context.Context, e picket.ReleaseEvent) { released = append(released, e) },
		}
		store := onMemory()
		store.acquire = func(ctx context.Context, c picket.Claim) (picket.Grant, error) {
			if ctx.Value(span{}) != c.Key {
				t.Errorf("the store does not get the context of AcquireStart")
			}
			return store.Store.Acquire(ctx, c)
		}
		l := picket.New(store, picket.WithObserver(o), picket.WithObserver(picket.Observer{}))
		le := acquire(t, l, "k")
		_, busy := l.TryAcquire(t.Context(), "k")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, waited := l.Acquire(ctx, "k")
		_, invalid := l.Acquire(t.Context(), "")
		time.Sleep(time.Second)
		release(t, le)
		synctest.Wait()
		want := []struct {
			lease    *picket.Lease
			err      error
			attempts int
			waited   time.Duration
		}{{le, nil, 1, 0}, {nil, busy, 1, 0}, {nil, waited, 0, time.Second}, {nil, invalid, 0, 0}}
		if len(acquired) != len(want) {
			t.Fatalf("%d events", len(acquired))
		}
		for i, w := range want {
			e := acquired[i]
			if e.Lease != w.lease || !errors.Is(e.Err, w.err) || w.attempts > 0 && e.Attempts != w.attempts || e.Waited != w.waited {
				t.Errorf("event %d: %+v, want %+v", i, e, w)
			}
		}
		if n := acquired[2].Attempts; n < 4 || n > 7 {
			t.Errorf("%d attempts in a second", n)
		}
		if len(released) != 1 || released[0].Lease != le || released[0].Err != nil || released[0].Held != 2*time.Second {
			t.Errorf("%+v", released)
		}
	})
}

// Hooks run outside all mutexes: one that uses the lease and the Locker does not deadlock. Each change is told once, those of one lease in order.
func TestHooksMayCallBack(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := memstore.New()
		var l *picket.Locker
		var told sync.Map // of a lease: its state
		use := func(le *picket.Lease) {
			_, _, _ = le.Check(), le.Remaining(), le.Done()
			_ = le.Context(t.Context())
			_ = le.Renew(t.Context(), 0)
			_, _ = le.Confirm(t.Context())
			_ = l.With()
			_, _ = l.Inspect(t.Context(), le.Key())
		}
		o := picket.Observer{
			AcquireEnd: func(_ context.Context, e picket.AcquireEvent) {
				if e.Lease != nil {
					use(e.Lease)
				}
			},
			ReleaseEnd: func(_ context.Context, e picket.ReleaseEvent) { use(e.Lease); _ = e.Lease.Release(t.Context()) },
			LeaseChange: func(e picket.LeaseEvent) {
				from, ok := told.Swap(e.Lease, e.To)
				if !ok {
					from = picket.StateHeld
				}
				if from != e.From || e.From == e.To {
					t.Errorf("%q went from %v to %v, but was %v", e.Lease.Key(), e.From, e.To, from)
				}
				use(e.Lease)
			},
			RenewEnd: func(picket.RenewEvent) { _, _ = l.Inspect(t.Context(), "a") },
		}
		l = picket.New(store, picket.WithTTL(time.Second), picket.WithObserver(o))
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				key := fmt.Sprint(i)
				for round := range 5 {
					le := acquire(t, l, key)
					time.Sleep(2 * time.Second)
					switch round {
					case 1:
						store.Lose(key, picket.ReasonStolen)
						<-le.Done()
					case 2:
						_ = store.Break(t.Context(), key, le.Token())
						<-le.Done()
					}
					_ = le.Release(t.Context())
				}
			})
		}
		time.Sleep(5 * time.Second)
		store.Fail(errWire)
		time.Sleep(600 * time.Millisecond)
		store.Fail(nil)
		wg.Wait()
		shutdown(t, l)
		wantIdle(t, l)
	})
}

func TestRenewEndCountsAndShowsTheHeadroom(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := onMemory()
		var events []picket.RenewEvent
		store.renew = func(_ context.Context, cs []picket.Claim, report func(int, error)) {
			time.Sleep(50 * time.Millisecond)
			for i, c := range cs {
				switch c.Key {
				case "lost":
					report(i, &picket.LostError{Key: c.Key})
				case "failed":
					report(i, errWire)
				case "silent":
				default:
					report(i, nil)
				}
			}
		}
		o := picket.Observer{RenewEnd: func(e picket.RenewEvent) { events = append(events, e) }}
		l := picket.New(store, picket.WithObserver(o))
		for _, key := range []string{"a", "b", "lost", "failed", "silent"} {
			acquire(t, l.With(picket.WithLabel(key)), key) // one observer, five kinds of locks
		}
		time.Sleep(10*time.Second + 100*time.Millisecond)
		synctest.Wait()
		if len(events) != 1 {
			t.Fatalf("%+v", events)
		}
		e := events[0]
		want := picket.RenewEvent{Leases: 5, Renewed: 2, Lost: 1, Unanswered: 2, Took: 50 * time.Millisecond, Headroom: e.Headroom}
		if e != want {
			t.Errorf("%+v, want %+v", e, want)
		}
		if e.Headroom > 29698*time.Millisecond-10*time.Second || e.Headroom < 19*time.Second {
			t.Errorf("the least time left is that of those who were not renewed: %s", e.Headroom)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 0)
		defer cancel()
		_ = l.Shutdown(ctx)
	})
}

func TestLeaseChangeCarriesWhy(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := memstore.New()
		var errs []error
		o := picket.Observer{LeaseChange: func(e picket.LeaseEvent) { errs = append(errs, e.Err) }}
		l := picket.New(store, picket.WithTTL(time.Second), picket.WithObserver(o))
		le := acquire(t, l, "k")
		store.Fail(errWire)
		<-le.Done()
		time.Sleep(time.Second)
		store.Fail(nil)
		synctest.Wait()
		if len(errs) != 3 {
			t.Fatalf("%v", errs)
		}
		wantIs(t, errs[0], errWire)
		wantReason(t, errs[1], picket.ReasonUnreachable)
		wantReason(t, errs[2], picket.ReasonUnreachable)
		_ = le.Release(t.Context())
	})
}

func TestStatesHaveTheNamesOfTheirEvents(t *testing.T) {
	t.Parallel()
	for state, want := range map[picket.State]string{
		picket.StateHeld: "held", picket.StateJeopardy: "jeopardy", picket.StateEnding: "ending", picket.StateLost: "lost",
		picket.StateReleased: "released", picket.State(99): "unknown",
	} {
		if state.String() != want {
			t.Errorf("%d is %q, want %q", int(state), state, want)
		}
	}
}

// LogTo logs jeopardy at Warn, loss at Error, the rest at Debug.
func TestLogToLevels(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var out bytes.Buffer
		var failing atomic.Bool
		store := onMemory()
		store.renew = func(ctx context.Context, cs []picket.Claim, report func(int, error)) {
			if !failing.Load() {
				store.Store.Renew(ctx, cs, report)
			}
		}
		log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if !slices.Contains([]string{"level", "msg", "key"}, a.Key) {
				return slog.Attr{}
			}
			return a
		}}))
		l := picket.New(store, picket.WithTTL(time.Second), picket.WithObserver(picket.LogTo(log)))
		release(t, acquire(t, l, "fine"))
		_, _ = l.Acquire(t.Context(), "")
		le := acquire(t, l, "cut")
		time.Sleep(400 * time.Millisecond)
		failing.Store(true)
		<-le.Done()
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		_ = le.Release(t.Context())
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		lines = slices.DeleteFunc(lines, func(line string) bool { return line == `level=DEBUG msg="picket: renewed"` })
		want := []string{
			`level=DEBUG msg="picket: acquired" key=fine`,
			`level=DEBUG msg="picket: lease is released" key=fine`,
			`level=DEBUG msg="picket: released" key=fine`,
			`level=DEBUG msg="picket: not acquired" key=""`,
			`level=DEBUG msg="picket: acquired" key=cut`,
			`level=WARN msg="picket: lease is jeopardy" key=cut`,
			`level=WARN msg="picket: lease is ending" key=cut`,
			`level=ERROR msg="picket: lease is lost" key=cut`,
			`level=DEBUG msg="picket: released" key=cut`,
		}
		if !slices.Equal(lines, want) {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
		}
	})
}

func TestANilLoggerLogsNothing(t *testing.T) {
	t.Parallel()
	l := picket.New(memstore.New(), picket.WithObserver(picket.LogTo(nil)))
	release(t, acquire(t, l, "k"))
}
