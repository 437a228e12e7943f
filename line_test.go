package picket_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/picket-go/picket"
	"github.com/picket-go/picket/memstore"
)

// A process hands the key on among its own waiters at most 16 times and for at most 100 ms; then the others are served (DESIGN 3.6).
func TestALocalTurnIsBounded(t *testing.T) {
	for _, c := range []struct {
		hold        time.Duration
		atMost      int
		othersAfter time.Duration
	}{
		{time.Millisecond, 17, 20 * time.Millisecond}, // the first of the turn, and 16 hand-overs
		{30 * time.Millisecond, 5, 160 * time.Millisecond},
		{time.Second, 2, 2 * time.Second},
	} {
		t.Run(c.hold.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				store := onHandingMemory()
				crowd, other := picket.New(store), picket.New(store)
				first := acquire(t, crowd, "k")
				var wg sync.WaitGroup
				served := make(chan string, 200)
				for range 60 {
					wg.Go(func() {
						le := acquire(t, crowd, "k")
						served <- "crowd"
						time.Sleep(c.hold)
						release(t, le)
					})
				}
				synctest.Wait()
				time.Sleep(time.Second)
				wg.Go(func() {
					le := acquire(t, other, "k")
					served <- "other"
					release(t, le)
				})
				synctest.Wait()
				began := time.Now()
				release(t, first)
				before := 0
				for <-served != "other" {
					before++
				}
				if before > c.atMost || before == 0 {
					t.Errorf("%d of the crowd were served before the other", before)
				}
				if d := time.Since(began); d > c.othersAfter {
					t.Errorf("the other was served after %s", d)
				}
				wg.Wait()
				wantIdle(t, crowd)
				wantIdle(t, other)
			})
		})
	}
}

// Inside a turn a hand-over is one round trip: no listening comes between, which could also miss the release.
func TestATurnCostsOneRoundTripAHandOver(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := onHandingMemory()
		store.watch = func(ctx context.Context, c picket.Claim) (<-chan struct{}, func(), error) {
			time.Sleep(time.Millisecond)
			return store.Store.(picket.Waker).Watch(ctx, c)
		}
		l := picket.New(store)
		held := acquire(t, l, "k")
		got := make(chan *picket.Lease)
		for range 17 {
			go func() { got <- acquire(t, l, "k") }()
		}
		time.Sleep(time.Second)
		release(t, held)
		held = <-got
		asked, handed, listened := store.acquires.Load(), store.transfers.Load(), store.watches.Load()
		for range 16 {
			time.Sleep(500 * time.Microsecond)
			release(t, held)
			held = <-got
		}
		if n := store.transfers.Load() - handed; n != 16 {
			t.Errorf("%d direct hand-overs of 16", n)
		}
		if a, w := store.acquires.Load()-asked, store.watches.Load()-listened; a != 0 || w > 1 {
			t.Errorf("%d attempts and %d listenings inside the turn", a, w)
		}
		release(t, held)
		wantIdle(t, l)
	})
}

// A waiter that gives up while the key is being handed to it passes it on.
func TestAWaiterThatLeavesDuringAHandOverPassesTheKeyOn(t *testing.T) {
	for name, others := range map[string]int{"alone": 0, "one behind": 1, "five behind": 5} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				store := onHandingMemory()
				store.transfer = func(ctx context.Context, from, to picket.Claim) (picket.Grant, error) {
					time.Sleep(10 * time.Millisecond)
					g, err := store.Store.(picket.Transferer).Transfer(ctx, from, to)
					time.Sleep(10 * time.Millisecond)
					return g, err
				}
				l := picket.New(store)
				held := acquire(t, l, "k")
				leaver, leave := context.WithCancel(t.Context())
				left := make(chan error)
				go func() { _, err := l.Acquire(leaver, "k"); left <- err }()
				synctest.Wait()
				var wg sync.WaitGroup
				for range others {
					wg.Go(func() { release(t, acquire(t, l, "k")) })
				}
				time.Sleep(time.Second)
				go func() {
					time.Sleep(15 * time.Millisecond)
					leave()
				}()
				release(t, held)
				wantIs(t, <-left, context.Canceled)
				wg.Wait()
				wantIdle(t, l)
				wantFree(t, store, "k")
			})
		})
	}
}

// A hand-over without an answer may have worked: the waiter asks with the same claim, and the release is sent as well.
func TestAHandOverInDoubtLosesNothing(t *testing.T) {
	for name, arrives := range map[string]bool{"the request is lost": false, "the answer is lost": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				store := onHandingMemory()
				var to picket.Claim
				store.transfer = func(ctx context.Context, from, next picket.Claim) (picket.Grant, error) {
					to = next
					if arrives {
						_, _ = store.Store.(picket.Transferer).Transfer(ctx, from, next)
					}
					return picket.Grant{}, errWire
				}
				l := picket.New(store)
				held := acquire(t, l, "k")
				got := make(chan *picket.Lease)
				go func() { got <- acquire(t, l, "k") }()
				time.Sleep(time.Second)
				release(t, held)
				next := <-got
				if next.Holder().ID != to.ID || next.Token() <= held.Token() {
					t.Errorf("granted to %+v with token %d after %d", next.Holder(), next.Token(), held.Token())
				}
				if d, err := next.Confirm(t.Context()); err != nil || d < 29*time.Second {
					t.Errorf("the store has %s, %v", d, err)
				}
				release(t, next)
				wantIdle(t, l)
				wantFree(t, store, "k")
				// The claim was in doubt: its hand-over, late, is refused.
				_, err := store.Store.Acquire(t.Context(), to)
				wantIs(t, err, picket.ErrRefused)
			})
		})
	}
}

// A caller that gives up while it hands the key over leaves on time; both the release and the waiter go on.
func TestACallerThatLeavesItsHandOverLosesNothing(t *testing.T) {
	for name, arrives := range map[string]bool{"the request is lost": false, "the answer is lost": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				store := onHandingMemory()
				store.transfer = func(ctx context.Context, from, to picket.Claim) (picket.Grant, error) {
					if arrives {
						_, _ = store.Store.(picket.Transferer).Transfer(ctx, from, to)
					}
					return picket.Grant{}, hang(ctx)
				}
				l := picket.New(store)
				held := acquire(t, l, "k")
				got := make(chan *picket.Lease)
				go func() { got <- acquire(t, l, "k") }()
				time.Sleep(time.Second)
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				defer cancel()
				var err error
				if d := took(func() { err = held.Release(ctx) }); d != 100*time.Millisecond {
					t.Errorf("left after %s", d)
				}
				wantIs(t, err, picket.ErrUncertain, context.DeadlineExceeded)
				next := <-got
				if next.Token() <= held.Token() {
					t.Errorf("token %d after %d", next.Token(), held.Token())
				}
				release(t, held) // the end of the one that went on
				if d, err := next.Confirm(t.Context()); err != nil || d < 29*time.Second {
					t.Errorf("the store has %s, %v", d, err)
				}
				release(t, next)
				wantIdle(t, l)
				wantFree(t, store, "k")
			})
		})
	}
}

func TestAHandOverThatTheStoreRefusesIsAPlainRelease(t *testing.T) {
	for _, refusal := range []error{picket.ErrUnsupported, picket.ErrRefused, picket.ErrInvalid} {
		t.Run(refusal.Error(), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				store := onHandingMemory()
				store.transfer = func(context.Context, picket.Claim, picket.Claim) (picket.Grant, error) {
					return picket.Grant{}, refusal
				}
				l := picket.New(store)
				held := acquire(t, l, "k")
				got := make(chan *picket.Lease)
				go func() { got <- acquire(t, l, "k") }()
				time.Sleep(time.Second)
				release(t, held)
				var le *picket.Lease
				if d := took(func() { le = <-got }); d > 0 {
					t.Errorf("served after %s", d)
				}
				release(t, le)
			})
		})
	}
}

func TestAHandOverOfALostLeaseSaysLost(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := memstore.New()
		l := picket.New(store)
		held := acquire(t, l, "k")
		got := make(chan *picket.Lease)
		go func() { got <- acquire(t, l, "k") }()
		time.Sleep(100 * time.Millisecond)
		store.Lose("k", picket.ReasonDeleted)
		wantReason(t, held.Release(t.Context()), picket.ReasonDeleted)
		release(t, <-got)
		wantIdle(t, l)
	})
}

func TestAKeyWithMinHoldIsNotHandedOverEarly(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := picket.New(memstore.New(), picket.WithMinHold(10*time.Second))
		began := time.Now()
		held := acquire(t, l, "k")
		got := make(chan *picket.Lease)
		go func() { got <- acquire(t, l, "k") }()
		time.Sleep(time.Second)
		release(t, held)
		le := <-got
		if d := time.Since(began); d < 10*time.Second || d > 10*time.Second+pollBound {
			t.Errorf("the next one works after %s", d)
		}
		release(t, le)
	})
}

// A line that is left by its first and in the middle serves who stays, and gives up its place in the store's queue at the end.
func TestWhoLeavesTheLineIsMissedByNobody(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := onListeningMemory()
		l := picket.New(store)
		held := acquire(t, picket.New(store.Store), "k")
		var cancels []context.CancelFunc
		done := make(chan int, 5)
		for i := range 5 {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			cancels = append(cancels, cancel)
			go func() {
				le, err := l.Acquire(ctx, "k")
				if (err == nil) != (i >= 3) {
					t.Errorf("waiter %d: %v", i, err)
				}
				done <- i
				if err == nil {
					release(t, le)
				}
			}()
			synctest.Wait()
		}
		for _, i := range []int{0, 2, 1} {
			cancels[i]()
			if got := <-done; got != i {
				t.Errorf("%d left for %d", got, i)
			}
		}
		if st, _ := store.Inspect(t.Context(), "k"); st.Waiters != 1 {
			t.Errorf("%d places", st.Waiters)
		}
		release(t, held)
		for _, want := range []int{3, 4} {
			if got := <-done; got != want {
				t.Errorf("%d was served before %d", got, want)
			}
		}
		wantIdle(t, l)
		wantFree(t, store, "k")
	})
}

// Q4, redisson#5019: a wait that timed out leaves no place that others wait for.
func TestAWaitThatTimedOutLeavesNoPlace(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := memstore.New()
		held := acquire(t, picket.New(store), "k")
		_, err := picket.New(store, picket.WithMaxWait(time.Second)).Acquire(t.Context(), "k")
		wantIs(t, err, picket.ErrBusy)
		synctest.Wait()
		if st, _ := store.Inspect(t.Context(), "k"); st.Waiters != 0 {
			t.Errorf("%d waiters", st.Waiters)
		}
		release(t, held)
		le, err := picket.New(store).TryAcquire(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		release(t, le)
	})
}

func TestABusyErrorCountsTheWaitersOfTheProcessToo(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := memstore.New()
		l := picket.New(store)
		held := acquire(t, picket.New(store, picket.WithLabel("x")), "k")
		ctx, cancel := context.WithCancel(t.Context())
		errs := make(chan error, 3)
		for range 3 {
			go func() { _, err := l.Acquire(ctx, "k"); errs <- err }()
			synctest.Wait()
		}
		last, stop := context.WithTimeout(t.Context(), 10*time.Second)
		defer stop()
		_, err := l.Acquire(last, "k")
		busy, ok := errors.AsType[*picket.BusyError](err)
		if !ok || busy.Waiters != 3 || busy.Holder.Label != "x" {
			t.Errorf("%+v, %v", busy, err)
		}
		// The holder does renew; without it, this is what would remain.
		if ok && (busy.Remaining < 19*time.Second || busy.Remaining > 30*time.Second) {
			t.Errorf("%s remain", busy.Remaining)
		}
		cancel()
		for range 3 {
			<-errs
		}
		release(t, held)
		wantIdle(t, l)
	})
}
