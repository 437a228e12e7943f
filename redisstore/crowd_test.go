package redisstore_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/picket-go/picket"
	"github.com/picket-go/picket/internal/redistest"
	"github.com/picket-go/picket/redisstore"
)

// confirmWindow is how long a hand-off may stay unconfirmed (DESIGN 3.6).
const confirmWindow = time.Second

// crowd is waiters of one key, each with a Store of its own as if it were a process of its own. Each releases at once what it gets.
type crowd struct {
	wg sync.WaitGroup
	mu sync.Mutex
	in []entrance // in the order of the grants
}

type entrance struct {
	who   int
	token int64
	at    time.Time
}

// join adds a waiter on c and returns when the server has it in the queue as the n-th, and it listens if it can.
func (w *crowd) join(t testing.TB, c *redis.Client, key string, n int, opts ...picket.Option) {
	t.Helper()
	s := store(t, c)
	l := locker(t, s, opts...)
	w.wg.Go(func() {
		lease := acquired(t, l, key)
		w.mu.Lock()
		w.in = append(w.in, entrance{n - 1, lease.Token(), time.Now()})
		w.mu.Unlock()
		if err := lease.Release(t.Context()); err != nil {
			t.Errorf("Release of waiter %d = %v", n-1, err)
		}
	})
	waiting(t, s, key, n)
}

// served waits for all n and checks their order, their tokens and the time since the event that let them in.
func (w *crowd) served(t testing.TB, n int, since time.Time, limit time.Duration) {
	t.Helper()
	w.wg.Wait()
	if len(w.in) != n {
		t.Fatalf("%d of %d waiters are in", len(w.in), n)
	}
	for i, e := range w.in {
		if e.who != i || i > 0 && e.token <= w.in[i-1].token {
			t.Fatalf("who came in, with which token: %v", w.in)
		}
	}
	if took := w.in[n-1].at.Sub(since); took > limit {
		t.Errorf("the last of %d waiters is in after %v, want at most %v", n, took, limit)
	}
}

// TestAHundredWaitersAreKilled covers Q1 (redisson#3166) with real processes: whoever waits behind them is in within a second of the release, in its order.
func TestAHundredWaitersAreKilled(t *testing.T) {
	const processes, each, living = 4, 25, 6
	server := redistest.Start(t)
	s := store(t, client(t, server))
	holder := acquired(t, locker(t, s), "k")
	var dying []*member
	for i := range processes {
		dying = append(dying, enlist(t, orders{Role: "wait", Addr: server.Addr(), Keys: []string{"k"}, Stores: each, TTL: 30 * time.Second}))
		waiting(t, s, "k", (i+1)*each)
	}
	listening(t, server, processes*each)
	var w crowd
	for i := range living {
		c := client(t, server)
		l := locker(t, store(t, c))
		w.wg.Go(func() {
			lease := acquired(t, l, "k")
			w.mu.Lock()
			w.in = append(w.in, entrance{i, lease.Token(), time.Now()})
			w.mu.Unlock()
			_ = lease.Release(t.Context())
		})
		waiting(t, s, "k", processes*each+i+1)
	}
	listening(t, server, processes*each+living)
	for _, m := range dying {
		m.kill()
	}
	listening(t, server, living)
	released := time.Now()
	if err := holder.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.served(t, living, released, slow(time.Second))
}

// TestTheHeadIsKilledAtTheMomentOfItsHandOff (GL-76): it was told, so its confirm window has to pass, and then the next one is in, whatever it knew of its place.
func TestTheHeadIsKilledAtTheMomentOfItsHandOff(t *testing.T) {
	for name, before := range map[string]int{"the next one was second": 0, "the next one was far back when it last asked": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			s := store(t, client(t, server))
			holder := acquired(t, locker(t, s), "k")
			var quick, next crowd
			for i := range before {
				quick.join(t, client(t, server), "k", i+1)
			}
			head := enlist(t, orders{Role: "freeze", Addr: server.Addr(), Keys: []string{"k"}, TTL: 30 * time.Second})
			waiting(t, s, "k", before+1)
			next.join(t, client(t, server), "k", before+2)
			listening(t, server, before+2)
			if err := holder.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			head.hear("woken", slow(5*time.Second))
			head.kill()
			died := time.Now()
			quick.wg.Wait()
			next.wg.Wait()
			if took := next.in[0].at.Sub(died); took > confirmWindow+slow(time.Second) {
				t.Errorf("the next one is in %v after the head was killed", took)
			}
		})
	}
}

// TestAWaiterThatIsNeverHeardOfAgainCostsOneConfirmWindow: it was killed before it listened, or its machine has lost power, so that the server cannot know. It is offered
// the key once, and then others go on (DESIGN 3.6: "a confirm window each").
func TestAWaiterThatIsNeverHeardOfAgainCostsOneConfirmWindow(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := store(t, client(t, server))
	l := locker(t, s)
	holder := acquired(t, l, "k")
	silent := claim("k")
	silent.Queue, silent.Recheck = true, farPoll
	if _, err := s.Acquire(t.Context(), silent); !errors.Is(err, picket.ErrBusy) {
		t.Fatalf("Acquire = %v, want ErrBusy", err)
	}
	released := time.Now()
	if err := holder.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		if err := acquired(t, l, "k").Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if took := time.Since(released); took > confirmWindow+slow(time.Second) {
		t.Errorf("four sections beside it took %v", took)
	}
}

// TestTheHolderIsKilled: its lease ends with its TTL, and all who wait are in a second later, in the order in which they came (GL-38, GL-76).
func TestTheHolderIsKilled(t *testing.T) {
	t.Parallel()
	const ttl = time.Second
	server := redistest.Start(t)
	holder := enlist(t, orders{Role: "hold", Addr: server.Addr(), Keys: []string{"k"}, TTL: ttl})
	holder.hear("holds", slow(5*time.Second))
	var w crowd
	for i := range 6 {
		w.join(t, client(t, server), "k", i+1)
	}
	holder.kill()
	w.served(t, 6, time.Now(), ttl+slow(time.Second))
}

// TestWakeUpsAreCutOffAgainAndAgain covers W2 (redisson#5761): the server kills every subscription connection many times a second, and polls find what was not heard.
func TestWakeUpsAreCutOffAgainAndAgain(t *testing.T) {
	t.Parallel()
	const waiters, sections = 4, 3
	server := redistest.Start(t)
	admin := server.Client(t)
	stop := make(chan struct{})
	var killer, wg sync.WaitGroup
	var killed atomic.Int64
	killer.Go(func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				n, _ := admin.Do(t.Context(), "client", "kill", "type", "pubsub").Int64()
				killed.Add(n)
			case <-stop:
				return
			}
		}
	})
	began := time.Now()
	for range waiters {
		l := locker(t, store(t, client(t, server)))
		wg.Go(func() {
			for range sections {
				lease := acquired(t, l, "k")
				time.Sleep(time.Millisecond) // somebody must wait
				if err := lease.Release(t.Context()); err != nil {
					t.Errorf("Release = %v", err)
				}
			}
		})
	}
	wg.Wait()
	close(stop)
	killer.Wait()
	if n := killed.Load(); n == 0 {
		t.Error("no subscription was killed")
	}
	// At worst each section waits for a poll of whoever is first in line, and that is every 250 ms.
	if took, most := time.Since(began), waiters*sections*300*time.Millisecond; took > slow(most) {
		t.Errorf("%d sections took %v, want at most %v", waiters*sections, took, most)
	}
}

// TestOnlyTheSubscriptionsAreBlackHoled covers W2 and W5: the server counts them among those that hear, and what they do not hear they find within the confirm window.
func TestOnlyTheSubscriptionsAreBlackHoled(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.StartProxy(t, server.Addr(), 1)
	proxy.Sometimes(1, redistest.Drop(redistest.Replies), "ping") // only subscriptions ping, and from then on they are silent
	holder := acquired(t, locker(t, store(t, client(t, server))), "k")
	var w crowd
	w.join(t, behind(t, server, proxy), "k", 1)
	w.join(t, behind(t, server, proxy), "k", 2)
	w.join(t, client(t, server), "k", 3)
	if !eventually(5*time.Second, func() bool { return proxy.Counts().Dropped >= 2 }) {
		t.Fatal("the subscriptions are not silent")
	}
	released := time.Now()
	if err := holder.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.served(t, 3, released, slow(confirmWindow))
}

// TestAWaiterGivesUpAsItIsWoken covers GL-08 and GL-40: it hands on what it was given, so the next one does not wait for the confirm window to pass.
func TestAWaiterGivesUpAsItIsWoken(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	hasty := &attentive{Store: store(t, client(t, server))}
	a, l := locker(t, hasty), locker(t, store(t, client(t, server)))
	for range 20 {
		holder := acquired(t, l, "k")
		ctx, cancel := context.WithCancel(t.Context())
		hasty.woken = cancel
		var gave sync.WaitGroup
		gave.Go(func() {
			lease, err := a.Acquire(ctx, "k")
			if err == nil {
				t.Error("granted although its ctx had ended")
				_ = lease.Release(t.Context())
			} else if !errors.Is(err, context.Canceled) {
				t.Errorf("Acquire = %v, want Canceled", err)
			}
		})
		waiting(t, hasty, "k", 1)
		var next crowd
		next.join(t, client(t, server), "k", 2)
		released := time.Now()
		if err := holder.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		gave.Wait()
		next.wg.Wait()
		cancel()
		if took := next.in[0].at.Sub(released); took > confirmWindow*3/4 {
			t.Errorf("the next one is in after %v: it has waited for the confirm window", took)
		}
		if !eventually(slow(time.Second), func() bool { return idle(t, hasty, "k") }) {
			t.Fatal("something is left of a waiter that gave up")
		}
	}
}

// TestAWaiterGivesUpAsItBeginsToListen (W5): the others of its process share its place, and listen in its stead. Else their hand-off goes unheard, and lapses.
func TestAWaiterGivesUpAsItBeginsToListen(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := store(t, client(t, server))
	holder := acquired(t, locker(t, s), "k")
	var before, next crowd
	for i := range 2 {
		before.join(t, client(t, server), "k", i+1)
	}
	slowly := &deaf{Store: store(t, client(t, server)), begun: make(chan struct{})}
	l := locker(t, slowly)
	ctx, cancel := context.WithCancel(t.Context())
	var gave sync.WaitGroup
	gave.Go(func() {
		if _, err := l.Acquire(ctx, "k"); !errors.Is(err, context.Canceled) {
			t.Errorf("Acquire = %v, want Canceled", err)
		}
	})
	<-slowly.begun
	next.wg.Go(func() {
		lease := acquired(t, l, "k")
		next.in = []entrance{{at: time.Now()}}
		_ = lease.Release(t.Context())
	})
	if !eventually(slow(5*time.Second), func() bool { // two are before it in the server's queue, and two in its own line
		_, err := l.With(picket.WithMaxWait(time.Millisecond)).Acquire(t.Context(), "k")
		busy, ok := errors.AsType[*picket.BusyError](err)
		return ok && busy.Waiters == 4
	}) {
		t.Fatal("the other waiter of its process is not there")
	}
	cancel()
	gave.Wait()
	time.Sleep(200 * time.Millisecond) // for the subscription
	released := time.Now()
	if err := holder.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	before.served(t, 2, released, slow(time.Second))
	next.wg.Wait()
	if took := next.in[0].at.Sub(released); took > slow(confirmWindow*3/4) {
		t.Errorf("the other waiter of its process is in after %v", took)
	}
}

// deaf is a Store whose first Watch ends with its ctx.
type deaf struct {
	*redisstore.Store
	begun chan struct{}
	calls atomic.Int64
}

func (s *deaf) Watch(ctx context.Context, c picket.Claim) (<-chan struct{}, func(), error) {
	if s.calls.Add(1) > 1 {
		return s.Store.Watch(ctx, c)
	}
	close(s.begun)
	<-ctx.Done()
	return nil, nil, ctx.Err()
}

// idle says that nobody holds the key and nobody waits.
func idle(t testing.TB, s picket.Store, key string) bool {
	st, err := s.Inspect(t.Context(), key)
	return err == nil && st.State == picket.StatusFree && st.Waiters == 0
}

// TestShortWaitsAndLongHoldsChurn covers Q4, GL-40 and GL-43: whoever gives up does so on time, not before its time, and leaves no place behind; who is patient is in
// as soon as the key is free.
func TestShortWaitsAndLongHoldsChurn(t *testing.T) {
	t.Parallel()
	const hold, rounds = 400 * time.Millisecond, 4
	server := redistest.Start(t)
	s := store(t, client(t, server))
	holders := locker(t, s)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var churn sync.WaitGroup
	var gaveUp atomic.Int64
	for range 4 {
		l := locker(t, store(t, client(t, server)))
		for range 6 {
			churn.Go(func() {
				for ctx.Err() == nil {
					limit := 5*time.Millisecond + rand.N(60*time.Millisecond)
					began := time.Now()
					lease, err := l.With(picket.WithMaxWait(limit)).Acquire(ctx, "k")
					took := time.Since(began)
					switch {
					case err == nil:
						_ = lease.Release(t.Context())
					case ctx.Err() != nil:
					case !errors.Is(err, picket.ErrBusy) && !errors.Is(err, picket.ErrUnavailable) || took < limit || took > limit+slow(300*time.Millisecond):
						t.Errorf("MaxWait %v: Acquire = %v after %v", limit, err, took)
					case errors.Is(err, picket.ErrBusy): // else the machine was too busy for an answer
						gaveUp.Add(1)
					}
				}
			})
		}
	}
	patient := locker(t, store(t, client(t, server)))
	for range rounds {
		holder := acquired(t, holders, "k")
		var in time.Time
		var wg sync.WaitGroup
		wg.Go(func() {
			lease := acquired(t, patient, "k")
			in = time.Now()
			_ = lease.Release(t.Context())
		})
		time.Sleep(hold)
		released := time.Now()
		if err := holder.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		if took := in.Sub(released); took > slow(time.Second) {
			t.Errorf("the patient one is in %v after the release", took)
		}
	}
	stop()
	churn.Wait()
	if n := gaveUp.Load(); n < 50 {
		t.Errorf("only %d gave up: that was no churn", n)
	}
	if !eventually(slow(time.Second), func() bool { return idle(t, s, "k") }) {
		st, err := s.Inspect(t.Context(), "k")
		t.Errorf("left behind: %+v, %v", st, err)
	}
}

// TestOneProcessWaitsForThousandsOfKeys covers W3 (redisson#6766): on connections of a bounded number, one of them a subscription, without a goroutine for each key, and
// all are served.
func TestOneProcessWaitsForThousandsOfKeys(t *testing.T) {
	keys := 5000
	if testing.Short() || raceDetector {
		keys = 1000
	}
	server := redistest.Start(t)
	c := client(t, server)
	holders := locker(t, store(t, client(t, server)))
	held := make([]*picket.Lease, keys)
	var wg sync.WaitGroup
	for w := range 32 {
		wg.Go(func() {
			for i := w; i < keys; i += 32 {
				held[i] = acquired(t, holders, "k"+strconv.Itoa(i))
			}
		})
	}
	wg.Wait()
	s := store(t, c)
	l := locker(t, s)
	var in atomic.Int64
	for i := range keys {
		wg.Go(func() {
			lease := acquired(t, l, held[i].Key())
			in.Add(1)
			if err := lease.Release(t.Context()); err != nil {
				t.Errorf("Release = %v", err)
			}
		})
	}
	admin := server.Client(t)
	queues := func() int { return len(admin.Keys(t.Context(), "lock:*:queue").Val()) }
	if !eventually(slow(20*time.Second), func() bool { return queues() == keys }) {
		t.Fatalf("%d of %d keys have a waiter", queues(), keys)
	}
	before, looked := server.CommandStats()["evalsha"], time.Now()
	time.Sleep(time.Second)
	polls := float64(server.CommandStats()["evalsha"]-before) / time.Since(looked).Seconds()
	own := 0
	for _, stack := range goroutines() {
		if !strings.Contains(stack, "acquired(") { // the callers' are not ours
			own++
		}
	}
	pool := c.Options().PoolSize
	connections, err := strconv.Atoi(server.Info("clients")["connected_clients"])
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d waiters: %d connections, %d goroutines beside the callers', %.0f calls a second", keys, connections, own, polls)
	if n := subscriptions(t, admin); n != "1" {
		t.Errorf("%s subscription connections, want 1", n)
	}
	if connections > 2*pool+8 || own > pool+32 {
		t.Errorf("%d connections and %d goroutines for pools of %d", connections, own, pool)
	}
	released := time.Now()
	for w := range 32 {
		wg.Go(func() {
			for i := w; i < keys; i += 32 {
				if err := held[i].Release(t.Context()); err != nil {
					t.Errorf("Release(%q) = %v", held[i].Key(), err)
				}
			}
		})
	}
	wg.Wait()
	t.Logf("all are in %v after the first release", time.Since(released))
	if n := in.Load(); n != int64(keys) {
		t.Errorf("%d of %d are in", n, keys)
	}
	if took := time.Since(released); took > slow(5*time.Second) {
		t.Errorf("the last one is in after %v", took)
	}
}

// TestWaitersOfAHeldKeyAskSeldom covers GL-36, GL-37 and GL-47 with 64 processes: less than one command a second each, those that keep the subscription alive too; and
// they wait until the key is free, with at most two attempts a hand-off.
func TestWaitersOfAHeldKeyAskSeldom(t *testing.T) {
	const waiters = 64
	const window = 4 * time.Second
	server := redistest.Start(t)
	holder := acquired(t, locker(t, store(t, client(t, server))), "k")
	var w crowd
	for i := range waiters {
		w.join(t, client(t, server), "k", i+1)
	}
	listening(t, server, waiters)
	sent := func() (n int64, all map[string]int64) {
		all = server.CommandStats()
		return all["evalsha"] + all["ping"] + all["subscribe"], all
	}
	before, _ := sent()
	cpu := server.Info("cpu")
	began := time.Now()
	time.Sleep(window)
	after, all := sent()
	rate := float64(after-before) / time.Since(began).Seconds() / waiters
	load := (number(t, server.Info("cpu")["used_cpu_user"]) + number(t, server.Info("cpu")["used_cpu_sys"]) - number(t, cpu["used_cpu_user"]) - number(t, cpu["used_cpu_sys"])) / time.Since(began).Seconds()
	t.Logf("%.2f commands a second of each waiter, %.1f %% of a core for the server; %v", rate, 100*load, all)
	if rate >= 1 {
		t.Errorf("%.2f commands a second of each waiter, want less than 1", rate)
	}
	calls := server.CommandStats()["evalsha"]
	released := time.Now()
	if err := holder.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.served(t, waiters, released, slow(2*time.Second))
	// A hand-off costs its release and its confirmation; others may poll meanwhile.
	if n := server.CommandStats()["evalsha"] - calls; n > 3*waiters+waiters/2 {
		t.Errorf("%d calls for %d hand-offs", n, waiters)
	}
}

func number(t testing.TB, s string) float64 {
	t.Helper()
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		t.Fatal(err)
	}
	return f
}
