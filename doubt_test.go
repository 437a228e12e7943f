package picket_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/picket-go/picket"
	"github.com/picket-go/picket/memstore"
)

// L3, GL-01, GL-02: the first reply is lost; the second request finds its own claim. Same token, no "busy by myself", and the full TTL.
func TestALostReplyIsASuccessOfTheNextAttempt(t *testing.T) {
	for name, how := range map[string]func(*picket.Locker, context.Context, string) (*picket.Lease, error){
		"Acquire": (*picket.Locker).Acquire, "TryAcquire": (*picket.Locker).TryAcquire,
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				store := onMemory()
				var first picket.Grant
				var ids []string
				store.acquire = func(ctx context.Context, c picket.Claim) (picket.Grant, error) {
					ids = append(ids, c.ID)
					g, err := store.Store.Acquire(ctx, c)
					if first.Token == 0 {
						first = g
						time.Sleep(100 * time.Millisecond)
						return picket.Grant{}, errWire
					}
					return g, err
				}
				l := picket.New(store)
				le, err := how(l, t.Context(), "k")
				if err != nil || le.Token() != first.Token || len(ids) != 2 || ids[0] != ids[1] {
					t.Fatalf("token %d, want %d, by %v, %v", le.Token(), first.Token, ids, err)
				}
				if d, err := le.Confirm(t.Context()); err != nil || d != 30*time.Second {
					t.Errorf("the store gives %s, %v", d, err)
				}
				if d := le.Remaining(); d != 28198*time.Millisecond {
					t.Errorf("%s remain from the second request", d)
				}
				release(t, le)
				// Its first request may still be on the way.
				_, err = store.Store.Acquire(t.Context(), picket.Claim{ID: ids[0], Key: "k", TTL: time.Second})
				wantIs(t, err, picket.ErrRefused)
				wantIdle(t, l)
			})
		})
	}
}

// L1, GL-09: every reply is lost. The acquire fails as unavailable, not busy, and what it may have taken is given back.
func TestAnAcquireThatEndsInDoubtIsUndone(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := onMemory()
		store.acquire = func(ctx context.Context, c picket.Claim) (picket.Grant, error) {
			_, _ = store.Store.Acquire(ctx, c)
			return picket.Grant{}, hang(ctx)
		}
		l := picket.New(store)
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		_, err := l.TryAcquire(ctx, "k")
		wantIs(t, err, picket.ErrUnavailable)
		if errors.Is(err, picket.ErrBusy) {
			t.Errorf("%v", err)
		}
		next, err := picket.New(store.Store).Acquire(t.Context(), "k")
		if err != nil || time.Since(deadline(ctx)) > pollBound {
			t.Errorf("the next one got in %s later, %v", time.Since(deadline(ctx)), err)
		}
		release(t, next)
		wantIdle(t, l)
	})
}

func deadline(ctx context.Context) time.Time {
	d, _ := ctx.Deadline()
	return d
}

// L2: the request arrives after the clean-up of its own claim, and is refused.
func TestARequestThatArrivesAfterItsUndoIsRefused(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := onMemory()
		var late sync.WaitGroup
		store.acquire = func(ctx context.Context, c picket.Claim) (picket.Grant, error) {
			late.Go(func() {
				time.Sleep(10 * time.Second)
				_, err := store.Store.Acquire(context.WithoutCancel(ctx), c)
				wantIs(t, err, picket.ErrRefused)
			})
			return picket.Grant{}, hang(ctx)
		}
		l := picket.New(store)
		for _, how := range []func(context.Context, string) (*picket.Lease, error){l.Acquire, l.TryAcquire} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err := how(ctx, "k")
			cancel()
			wantIs(t, err, picket.ErrUnavailable)
		}
		late.Wait()
		wantFree(t, store.Store, "k")
		wantIdle(t, l)
	})
}

// An undo whose request is lost is sent again, while its first attempt still waits for an answer.
func TestAnUndoIsRepeatedWhenItGetsNoAnswer(t *testing.T) {
	for name, lose := range map[string]func(context.Context) error{
		"it fails": func(context.Context) error { return errWire },
		"it hangs": hang,
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				store := onMemory()
				store.acquire = func(ctx context.Context, c picket.Claim) (picket.Grant, error) {
					_, _ = store.Store.Acquire(ctx, c)
					return picket.Grant{}, hang(ctx)
				}
				var lost atomic.Int64
				store.release = func(ctx context.Context, c picket.Claim) error {
					if !c.Doubt {
						t.Error("the store does not know that the claim is in doubt")
					}
					if lost.Add(1) <= 3 {
						return lose(ctx)
					}
					return store.Store.Release(ctx, c)
				}
				l := picket.New(store)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_, err := l.TryAcquire(ctx, "k")
				wantIs(t, err, picket.ErrUnavailable)
				time.Sleep(5 * time.Second)
				wantFree(t, store.Store, "k")
				wantIdle(t, l)
			})
		})
	}
}

// Doubt is sticky: a claim whose first attempt had no answer leaves a tombstone when it is released or lost, however long it was held.
func TestDoubtLastsUntilTheEndOfTheClaim(t *testing.T) {
	for name, end := range map[string]func(*testing.T, *memstore.Store, *picket.Lease){
		"release": func(t *testing.T, _ *memstore.Store, le *picket.Lease) { release(t, le) },
		"loss": func(t *testing.T, store *memstore.Store, le *picket.Lease) {
			store.Lose("k", picket.ReasonDeleted)
			<-le.Done()
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				memory := memstore.New()
				store := &scripted{Store: memory}
				var claim picket.Claim
				store.acquire = func(ctx context.Context, c picket.Claim) (picket.Grant, error) {
					if claim.ID == "" {
						claim = c
						return picket.Grant{}, errWire
					}
					return memory.Acquire(ctx, c)
				}
				l := picket.New(store)
				le := acquire(t, l, "k")
				time.Sleep(time.Hour)
				end(t, memory, le)
				synctest.Wait()
				_, err := memory.Acquire(t.Context(), claim)
				wantIs(t, err, picket.ErrRefused)
			})
		})
	}
}

// Without doubt no tombstone is written: the usual path pays nothing.
func TestAClaimWithoutDoubtLeavesNoTombstone(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := onMemory()
		store.release = func(ctx context.Context, c picket.Claim) error {
			if c.Doubt {
				t.Error("in doubt")
			}
			return store.Store.Release(ctx, c)
		}
		l := picket.New(store)
		held := acquire(t, l, "k")
		_, err := l.TryAcquire(t.Context(), "k")
		wantIs(t, err, picket.ErrBusy)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err = l.Acquire(ctx, "k")
		wantIs(t, err, picket.ErrBusy)
		release(t, held)
		wantIdle(t, l)
	})
}

// GL-23 of a waiter: a place in the queue whose poll went unanswered is still the same place.
func TestAnUnansweredPollKeepsThePlace(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		memory := memstore.New()
		a, b := &scripted{Store: memory}, picket.New(memory)
		var calls atomic.Int64
		a.acquire = func(ctx context.Context, c picket.Claim) (picket.Grant, error) {
			g, err := memory.Acquire(ctx, c)
			if calls.Add(1)%2 == 0 {
				return picket.Grant{}, errWire
			}
			return g, err
		}
		held := acquire(t, b, "k")
		order := make(chan string, 2)
		var wg sync.WaitGroup
		wg.Go(func() {
			le := acquire(t, picket.New(a), "k")
			order <- "a"
			release(t, le)
		})
		synctest.Wait()
		wg.Go(func() {
			le := acquire(t, b, "k")
			order <- "b"
			release(t, le)
		})
		time.Sleep(20 * time.Second)
		release(t, held)
		if first := <-order; first != "a" {
			t.Errorf("%s came first", first)
		}
		wg.Wait()
	})
}
