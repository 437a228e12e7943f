package picket_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/picket-go/picket"
	"github.com/picket-go/picket/memstore"
)

// unqueued is memory as a store without a queue: it keeps no places and cannot tell who waits.
func unqueued() *scripted {
	store := onMemory()
	store.acquire = func(ctx context.Context, c picket.Claim) (picket.Grant, error) {
		c.Queue = false
		g, err := store.Store.Acquire(ctx, c)
		g.Waiters = -1
		if busy, ok := errors.AsType[*picket.BusyError](err); ok {
			busy.Waiters = -1
		}
		return g, err
	}
	return store
}

// everyStore are memory with fewer and fewer abilities, as a decorator may leave them.
var everyStore = map[string]func() picket.Store{
	"memory":            func() picket.Store { return memstore.New() },
	"counted":           func() picket.Store { return onHandingMemory() },
	"no Transferer":     func() picket.Store { return onListeningMemory() },
	"no Waker":          func() picket.Store { return onMemory() },
	"no Waker or queue": func() picket.Store { return unqueued() },
}

// section counts who is inside at once.
type section struct {
	inside, entries atomic.Int64
	token           atomic.Int64
}

func (s *section) enter(t *testing.T, le *picket.Lease) {
	t.Helper()
	if n := s.inside.Add(1); n != 1 {
		t.Errorf("%d are inside", n)
	}
	if last := s.token.Swap(le.Token()); last >= le.Token() {
		t.Errorf("token %d after %d", le.Token(), last)
	}
	s.entries.Add(1)
}

func (s *section) leave(t *testing.T, le *picket.Lease) {
	t.Helper()
	s.inside.Add(-1)
	_ = le.Release(context.WithoutCancel(t.Context()))
}

// Losing an optional interface costs speed or order, never correctness.
func TestEveryStoreExcludesAndServesAllWaiters(t *testing.T) {
	for name, newStore := range everyStore {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				store := newStore()
				lockers := []*picket.Locker{picket.New(store), picket.New(store), picket.New(store)}
				var s section
				var wg sync.WaitGroup
				for i := range 30 {
					wg.Go(func() {
						for range 5 {
							le := acquire(t, lockers[i%len(lockers)], "k")
							s.enter(t, le)
							time.Sleep(time.Millisecond)
							s.leave(t, le)
						}
					})
				}
				wg.Wait()
				if n := s.entries.Load(); n != 150 {
					t.Errorf("%d of 150 entries", n)
				}
				for _, l := range lockers {
					wantIdle(t, l)
				}
				wantFree(t, store, "k")
			})
		})
	}
}

// GL-38: in one process, and between processes on a store with a queue, the first that came is served first.
func TestWaitersAreServedInTheOrderInWhichTheyCame(t *testing.T) {
	for name, newStore := range everyStore {
		for kind, processes := range map[string]int{"one process": 1, "a hundred processes": 100} {
			if processes > 1 && (name == "no Waker" || name == "no Waker or queue") {
				continue // who polls in time is served
			}
			t.Run(name+", "+kind, func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					store := newStore()
					lockers := make([]*picket.Locker, processes)
					for i := range lockers {
						lockers[i] = picket.New(store)
					}
					held := acquire(t, picket.New(store), "k")
					order := make(chan int, 100)
					var wg sync.WaitGroup
					for i := range 100 {
						wg.Go(func() {
							le := acquire(t, lockers[i%processes], "k")
							order <- i
							release(t, le)
						})
						synctest.Wait()
						time.Sleep(50 * time.Millisecond)
					}
					release(t, held)
					for want := range 100 {
						if got := <-order; got != want {
							t.Errorf("%d came before %d", got, want)
						}
					}
					wg.Wait()
				})
			})
		}
	}
}

// The wake-up is for the first in line. If another waiter of the process takes it, the first sleeps until it polls.
func TestAWakeUpReachesTheFirstInLine(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := memstore.New()
		other, l := picket.New(store), picket.New(store)
		for range 20 {
			held := acquire(t, other, "k")
			var granted []chan *picket.Lease
			for range 8 {
				got := make(chan *picket.Lease, 1)
				granted = append(granted, got)
				go func() { got <- acquire(t, l, "k") }()
				synctest.Wait()
			}
			time.Sleep(time.Second) // the first has polled since the others came
			var le *picket.Lease
			if d := took(func() { release(t, held); le = <-granted[0] }); d != 0 {
				t.Errorf("the first was told after %s", d)
			}
			for _, got := range granted[1:] {
				release(t, le)
				le = <-got
			}
			release(t, le)
		}
	})
}

// W2, redisson#5761: every wake-up is lost; a poll finds what it would have said.
func TestALostWakeUpIsFoundByAPoll(t *testing.T) {
	deaf := func(context.Context, picket.Claim) (<-chan struct{}, func(), error) {
		return make(chan struct{}), func() {}, nil
	}
	// W5, redisson#6047: one subscription fails; that only degrades to polling.
	refused := func(context.Context, picket.Claim) (<-chan struct{}, func(), error) { return nil, nil, errWire }
	closed := func(context.Context, picket.Claim) (<-chan struct{}, func(), error) {
		wake := make(chan struct{})
		close(wake)
		return wake, func() {}, nil
	}
	hung := func(ctx context.Context, _ picket.Claim) (<-chan struct{}, func(), error) { return nil, nil, hang(ctx) }
	for name, watch := range map[string]func(context.Context, picket.Claim) (<-chan struct{}, func(), error){
		"nothing is heard": deaf, "listening is refused": refused, "the channel is closed": closed, "listening hangs": hung,
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				store := onListeningMemory()
				store.watch = watch
				l, other := picket.New(store), picket.New(store.Store)
				held := acquire(t, other, "k")
				got := make(chan time.Time, 1)
				go func() {
					le := acquire(t, l, "k")
					got <- time.Now()
					release(t, le)
				}()
				time.Sleep(20*time.Second + 50*time.Millisecond)
				began := time.Now()
				release(t, held)
				// A listening that hangs is cut off after a second.
				if d := (<-got).Sub(began); d > pollBound+time.Second || d > pollBound && name != "listening hangs" {
					t.Errorf("found after %s", d)
				}
				if n := store.watches.Load(); n > 100 {
					t.Errorf("tried to listen %d times in 20 s", n)
				}
				if n := store.acquires.Load(); n > 150 {
					t.Errorf("asked %d times in 20 s", n)
				}
				wantIdle(t, l)
				wantFree(t, store, "k")
			})
		})
	}
}

func TestMaxWaitEndsAListeningThatHangs(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := onListeningMemory()
		store.watch = func(ctx context.Context, _ picket.Claim) (<-chan struct{}, func(), error) { return nil, nil, hang(ctx) }
		held := acquire(t, picket.New(store.Store), "k")
		var err error
		if d := took(func() {
			_, err = picket.New(store, picket.WithMaxWait(300*time.Millisecond)).Acquire(t.Context(), "k")
		}); d != 300*time.Millisecond {
			t.Errorf("returned after %s", d)
		}
		wantIs(t, err, picket.ErrBusy)
		release(t, held)
	})
}

// GL-69, rueidis#270: a client that reconnects ends the listening and fails a request; that is no end of the waiting.
func TestAReconnectingClientDoesNotEndTheWaiting(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := onListeningMemory()
		var mu sync.Mutex
		var wakes []chan struct{}
		store.watch = func(context.Context, picket.Claim) (<-chan struct{}, func(), error) {
			mu.Lock()
			defer mu.Unlock()
			wakes = append(wakes, make(chan struct{}))
			return wakes[len(wakes)-1], func() {}, nil
		}
		l := picket.New(store)
		held := acquire(t, picket.New(store.Store), "k")
		got := make(chan *picket.Lease)
		go func() { got <- acquire(t, l, "k") }()
		for range 5 {
			time.Sleep(10 * time.Second)
			store.Store.(*memstore.Store).Fail(errWire)
			mu.Lock()
			for _, wake := range wakes {
				close(wake)
			}
			wakes = nil
			mu.Unlock()
			time.Sleep(2 * time.Second)
			store.Store.(*memstore.Store).Fail(nil)
		}
		release(t, held)
		release(t, <-got)
		wantIdle(t, l)
	})
}

// GL-36: ten processes wait for a minute, each with fewer than five commands a second.
func TestWaitersAskSeldom(t *testing.T) {
	for name, newStore := range map[string]func() *scripted{"queue": onMemory, "no queue": unqueued} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				shared := newStore()
				held := acquire(t, picket.New(shared), "k")
				var stores []*scripted
				done := make(chan struct{})
				for range 10 {
					store := &scripted{Store: shared}
					stores = append(stores, store)
					go func() {
						defer func() { done <- struct{}{} }()
						release(t, acquire(t, picket.New(store), "k"))
					}()
				}
				time.Sleep(time.Minute)
				total := int64(0)
				for _, store := range stores {
					n := store.acquires.Load()
					total += n
					if n >= 5*60 || n == 0 {
						t.Errorf("a waiter asked %d times in a minute", n)
					}
				}
				if name == "queue" && total > 2*5*60+8*30 { // only the first two are in a hurry
					t.Errorf("all of them asked %d times in a minute", total)
				}
				release(t, held)
				for range 10 {
					<-done
				}
			})
		})
	}
}

// GL-37, consul#9469: 64 waiters and one release cost at most two attempts a hand-over, not 64.
func TestAHandOverCostsAtMostTwoAttempts(t *testing.T) {
	for kind, processes := range map[string]int{"one process": 1, "64 processes": 64} {
		t.Run(kind, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				store := onHandingMemory()
				lockers := make([]*picket.Locker, processes)
				for i := range lockers {
					lockers[i] = picket.New(store)
				}
				held := acquire(t, picket.New(store.Store), "k")
				got := make(chan *picket.Lease)
				for i := range 64 {
					go func() { got <- acquire(t, lockers[i%processes], "k") }()
				}
				time.Sleep(10 * time.Second)
				before := store.acquires.Load()
				for range 64 {
					release(t, held)
					held = <-got
				}
				release(t, held)
				if n := store.acquires.Load() - before; n > 2*64 {
					t.Errorf("%d attempts for 64 hand-overs", n)
				}
				if processes == 1 && store.transfers.Load() < 50 {
					t.Errorf("only %d direct hand-overs in one process", store.transfers.Load())
				}
			})
		})
	}
}

// L9, node-redlock#296: what was waited does not count against the lease.
func TestTheLeaseIsFullAfterALongWait(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := memstore.New()
		held := acquire(t, picket.New(store), "k")
		l := picket.New(store, picket.WithTTL(time.Second))
		time.AfterFunc(1200*time.Millisecond, func() { _ = held.Release(t.Context()) })
		le := acquire(t, l, "k")
		if d := le.Remaining(); d != 938*time.Millisecond {
			t.Errorf("%s remain of 1s - 12ms drift - 50ms grace", d)
		}
		if d, err := le.Confirm(t.Context()); err != nil || d != time.Second {
			t.Errorf("the store says %s, %v", d, err)
		}
		release(t, le)
	})
}

// GL-25: all is deleted while 50 hold and 50 wait. Holders hear of it, waiters go on.
func TestAFlushEndsHoldersAndServesWaiters(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := memstore.New()
		a, b := picket.New(store), picket.New(store)
		var held []*picket.Lease
		got := make(chan *picket.Lease)
		for i := range 50 {
			key := fmt.Sprint("k", i)
			held = append(held, acquire(t, a, key))
			go func() { got <- acquire(t, b, key) }()
		}
		time.Sleep(time.Second)
		began := time.Now()
		for _, le := range held {
			store.Lose(le.Key(), picket.ReasonDeleted)
		}
		for range held {
			release(t, <-got)
		}
		if d := time.Since(began); d > pollBound {
			t.Errorf("waiters were served after %s", d)
		}
		for _, le := range held {
			<-le.Done()
			wantReason(t, le.Check(), picket.ReasonDeleted)
		}
		if d := time.Since(began); d > 11*time.Second {
			t.Errorf("the last holder heard after %s; a renewal is due every 10s", d)
		}
		wantIdle(t, a)
		wantIdle(t, b)
	})
}

// A release that comes while the first in line is asking does not wait for its next poll.
func TestAReleaseDuringAPollIsAskedForAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := unqueued()
		inner := store.acquire
		store.acquire = func(ctx context.Context, c picket.Claim) (picket.Grant, error) {
			g, err := inner(ctx, c)
			time.Sleep(100 * time.Millisecond) // on the way back
			return g, err
		}
		l := picket.New(store)
		held := acquire(t, l, "k")
		got := make(chan *picket.Lease)
		go func() { got <- acquire(t, l, "k") }()
		time.Sleep(50 * time.Millisecond)
		release(t, held)
		var le *picket.Lease
		if d := took(func() { le = <-got }); d > 150*time.Millisecond {
			t.Errorf("granted %s after the release", d)
		}
		release(t, le)
	})
}

// Waiters come, lose patience and get in at random, on stores that are slow, drop answers, and fail to listen.
func TestNothingIsLeftAfterRandomWaiting(t *testing.T) {
	for name := range everyStore {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				memory := everyStore[name]()
				lockers := make([]*picket.Locker, 3)
				for i := range lockers {
					lockers[i] = picket.New(overLossyNetwork(memory), picket.WithTTL(5*time.Second))
				}
				var s section
				var wg sync.WaitGroup
				for i := range 40 {
					wg.Go(func() {
						for range 25 {
							ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(int(3*time.Second))))
							le, err := lockers[i%len(lockers)].Acquire(ctx, "k")
							cancel()
							if err != nil {
								continue
							}
							s.enter(t, le)
							time.Sleep(time.Duration(rand.IntN(int(40 * time.Millisecond))))
							s.leave(t, le)
						}
					})
				}
				wg.Wait()
				if n := s.entries.Load(); n < 100 {
					t.Errorf("only %d got in", n)
				}
				time.Sleep(time.Minute)
				for _, l := range lockers {
					wantIdle(t, l)
				}
				wantFree(t, memory, "k")
			})
		})
	}
}

// overLossyNetwork puts a slow network in front of store that now and then loses a request or an answer.
func overLossyNetwork(store picket.Store) picket.Store {
	network := func(ctx context.Context, call func() error) error {
		for _, step := range []func() error{func() error { return nil }, call} {
			select {
			case <-time.After(time.Duration(rand.IntN(int(5 * time.Millisecond)))):
			case <-ctx.Done():
				return ctx.Err()
			}
			if rand.IntN(50) == 0 {
				return errWire
			}
			if err := step(); err != nil {
				return err
			}
		}
		if rand.IntN(50) == 0 {
			return errWire
		}
		return nil
	}
	base := &scripted{Store: store}
	base.acquire = func(ctx context.Context, c picket.Claim) (g picket.Grant, err error) {
		err = network(ctx, func() (err error) { g, err = store.Acquire(context.WithoutCancel(ctx), c); return err })
		return g, err
	}
	base.release = func(ctx context.Context, c picket.Claim) error {
		return network(ctx, func() error { return store.Release(context.WithoutCancel(ctx), c) })
	}
	waker, ok := store.(picket.Waker)
	if !ok {
		return base
	}
	heard := &listening{scripted: base}
	heard.watch = func(ctx context.Context, c picket.Claim) (wake <-chan struct{}, stop func(), err error) {
		if rand.IntN(10) == 0 {
			return nil, nil, errWire
		}
		return waker.Watch(ctx, c)
	}
	swapper, ok := store.(picket.Transferer)
	if !ok {
		return heard
	}
	handed := &handing{listening: heard}
	handed.transfer = func(ctx context.Context, from, to picket.Claim) (g picket.Grant, err error) {
		err = network(ctx, func() (err error) { g, err = swapper.Transfer(context.WithoutCancel(ctx), from, to); return err })
		return g, err
	}
	return handed
}
