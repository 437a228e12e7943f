package picket_test

import (
	"context"
	"errors"
	"flag"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/picket-go/picket"
)

var (
	modelSeed = flag.Uint64("model.seed", 0, "TestModel: repeat the plan of this run; 0 draws new ones")
	modelFor  = flag.Duration("model.for", 6*time.Second, "TestModel: go on for so long (a quarter with -short)")
	modelAim  = flag.String("model.aim", "", "TestModel and TestRedisModel: what each run has more of: delays, kills, late, links, polls, steps, swaps, wakes")
	modelRuns = flag.Uint64("model.runs", 0, "TestModel and TestRedisModel: make so many runs, of one seed after the other, unless one fails; 0 goes by the time")
)

// TestModel drives real Lockers in virtual time against memstore behind a network that delays, drops and repeats requests and replies, and watches from outside what
// holders are told, what the server does, and whether the two agree (DESIGN 1, 3.1 to 3.7, 6).
//
// A seed fixes the plan of a run: faults, waits, kinds of lock. It does not fix the order of goroutines that are ready at the same instant, nor the jitter of the Locker,
// so a rare violation may need its seed more than once: -count=20. The trace in the report is of the run that failed.
//
// Cases: L1 L2 L3 L4 L5 L7 L9 L11 L12 L13 GL-01 GL-02 GL-04 GL-06 GL-08 GL-20 GL-23 GL-67.
func TestModel(t *testing.T) {
	model(t, *modelFor, newMemory)
}

// model makes runs for about limit and returns what happened in them.
func model(t *testing.T, limit time.Duration, server func(*world) host) {
	if testing.Short() {
		limit /= 4
	}
	var all tally
	more := func(began time.Time) bool {
		switch {
		case all.runs == 0:
			return true
		case t.Failed():
			return false
		case *modelRuns > 0:
			return uint64(all.runs) < *modelRuns
		}
		return *modelSeed == 0 && time.Since(began) < limit
	}
	for began := time.Now(); more(began); {
		seed := *modelSeed + uint64(all.runs)
		if *modelSeed == 0 {
			seed = rand.Uint64()
		}
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, seed, server)
			w.live()
			all.add(w.ledger.count)
		})
		all.runs++
	}
	t.Logf("%+v", all)
	if all.runs > 20 && !t.Failed() {
		for what, n := range map[string]int{
			"leases told": all.told, "leases lost": all.lost, "requests that came late": all.late, "requests repeated": all.twice,
			"claims refused": all.refused, "hand-offs": all.handed, "swaps": all.swapped, "hand-offs that lapsed": all.lapsed,
			"waiters passed over because they had hung up": all.deaf, "processes killed": all.killed,
		} {
			if n < all.runs/10 {
				t.Errorf("%d runs, but %d %s: the model has gone blind", all.runs, n, what)
			}
		}
	}
}

// aimed reports whether runs shall have more of what.
func aimed(what string) bool { return strings.Contains(*modelAim, what) }

// world is one run: a server, a network, some processes with clients.
type world struct {
	*journal
	ledger           *ledger
	host             host
	states           *states
	d                *dice
	keys             []string
	seats            []*seat
	wakes, transfers bool

	sky    atomic.Int32
	over   chan struct{}  // closed when the clients shall go home
	wg     sync.WaitGroup // of the network
	flying atomic.Int64   // calls under way
}

func newWorld(t *testing.T, seed uint64, server func(*world) host) *world {
	j := &journal{t: t, test: t.Name(), seed: seed, began: time.Now(), names: map[string]int{}}
	w := &world{
		journal: j, ledger: newLedger(j), states: &states{journal: j, now: map[*picket.Lease]picket.State{}},
		d: newDice(seed, 0), keys: []string{"ka", "kb"}, over: make(chan struct{}),
	}
	if w.d.one(2) || aimed("swaps") {
		w.keys = w.keys[:1]
	}
	w.wakes, w.transfers = !aimed("polls") && (!w.d.one(4) || aimed("wakes")), !w.d.one(3) || aimed("swaps")
	w.host = server(w)
	w.ledger.host = w.host
	for i := range 2 + w.d.below(3) {
		s := &seat{w: w, no: i + 1, d: newDice(seed, 1+i)}
		s.start()
		w.seats = append(w.seats, s)
	}
	return w
}

func (w *world) weather() weather { return weather(w.sky.Load()) }

func (w *world) blow(now weather) {
	w.sky.Store(int32(now))
	w.log("the weather is %d now", now)
	w.host.change(now)
}

func (w *world) closing() bool { return closed(w.over) || w.failed() }

func (w *world) count(f func(*tally)) {
	w.ledger.mu.Lock()
	defer w.ledger.mu.Unlock()
	f(&w.ledger.count)
}

// live is the whole run: bad weather, silence, what must be true then, calm weather, the end.
func (w *world) live() {
	var clients sync.WaitGroup
	for _, s := range w.seats {
		for g := range 1 + w.d.below(3) {
			c := &client{w: w, at: s, name: string(rune('A'+s.no-1)) + string(rune('1'+g)), d: newDice(w.seed, 100+10*s.no+g)}
			clients.Go(c.run)
		}
		clients.Go(s.restarts)
	}
	w.rage()
	w.blow(calm)
	close(w.over)
	clients.Wait()
	w.quieten()
	w.contest()
	for _, s := range w.seats {
		s.stop(s.now, time.Second)
		if s.now.aborted.Load() {
			w.violation(stuck, "the Shutdown of %s, which holds nothing, did not end", s.now.name)
		}
	}
	w.wg.Wait()
	w.host.close()
	w.ledger.orphans()
	w.ledger.unfinished(w.states)
}

// rage is the bad weather: about a minute of it.
func (w *world) rage() {
	skies := []weather{calm, fair, fair, rough, rough, rough, storm, storm, dark}
	end := time.Now().Add(w.d.between(20*time.Second, 60*time.Second))
	for time.Now().Before(end) && !w.failed() {
		w.blow(skies[w.d.below(len(skies))])
		change := time.Now().Add(w.d.between(200*time.Millisecond, 5*time.Second))
		for time.Now().Before(change) {
			time.Sleep(w.d.between(5*time.Millisecond, 60*time.Millisecond))
			w.ledger.auditAll()
		}
	}
}

// quieten waits until nobody holds and nothing is under way. Then the keys must be free, or there is a good reason.
func (w *world) quieten() {
	end := time.Now().Add(40 * time.Second)
	for w.ledger.auditAll() > 0 || w.flying.Load() > 0 {
		if time.Now().After(end) {
			w.violation(stuck, "%d leases held, %d calls under way 40 s after the last client went home", w.ledger.auditAll(), w.flying.Load())
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	for _, key := range w.keys {
		st := w.ledger.status(key)
		if st.State == picket.StatusFree {
			continue
		}
		why := w.ledger.remains(st)
		if why == "" {
			w.violation(ghost, "all is quiet, but %q is %s by %s (token %d) for %s", key, st.State, w.name(st.Holder.ID), st.Token, st.Remaining)
		}
		w.log("%q is still %s: %s", key, st.State, why)
	}
}

// contest is calm weather: each waiter gets in within a second.
func (w *world) contest() {
	for range 2 { // the server finds that its clock stepped back, among the first of a long line only, and then among the rest
		w.poke()
		time.Sleep(15 * time.Second) // the dead of the queue and what is left to its TTL
	}
	w.host.warm()
	limit := time.Second
	if !w.wakes {
		limit = 10 * time.Second // the third in line asks every 3 s
	}
	var all sync.WaitGroup
	for _, key := range w.keys {
		if st := w.ledger.status(key); st.State != picket.StatusFree || st.Waiters > 0 {
			w.violation(ghost, "all is over, but %q is %s with %d waiters", key, st.State, st.Waiters)
		}
		for i, s := range w.seats {
			crowd, hold := 3, 5*time.Millisecond
			if i == 0 && w.d.one(3) { // more than one local turn may serve
				crowd, hold = 40, time.Millisecond
			}
			for range crowd {
				all.Go(func() { w.enter(s, key, time.Duration(i)*time.Millisecond, hold, limit) })
			}
		}
	}
	all.Wait()
	w.churn()
	w.drill()
}

// churn lets each process come back to the key at once, again and again.
func (w *world) churn() {
	var all sync.WaitGroup
	for _, s := range w.seats {
		for range 3 {
			all.Go(func() {
				for range 4 {
					w.enter(s, w.keys[0], 0, 0, 20*time.Second)
				}
			})
		}
	}
	all.Wait()
}

// poke lets the server look at each key once: it cuts what a step of its clock has lengthened when it next sees it.
func (w *world) poke() {
	s := w.seats[0]
	for _, key := range w.keys {
		if l, err := s.now.locker.TryAcquire(w.t.Context(), key); err == nil {
			w.leave(w.ledger.tells(s.now.name, l))
		}
	}
}

// enter takes key in calm weather and gives it back.
func (w *world) enter(s *seat, key string, delay, hold, limit time.Duration) {
	time.Sleep(delay)
	ctx, cancel := context.WithTimeout(w.t.Context(), limit)
	defer cancel()
	done := w.ledger.asks(s.now, key)
	l, err := s.now.locker.Acquire(ctx, key)
	done()
	if err != nil {
		w.violation(stuck, "in calm weather a waiter of %s did not get %q within %s: %v", s.now.name, key, limit, err)
		return
	}
	h := w.ledger.tells(s.now.name, l)
	time.Sleep(hold)
	w.leave(h)
}

// leave gives the key back in calm weather.
func (w *world) leave(h *told) {
	out := w.ledger.leaves(h)
	err := h.lease.Release(w.t.Context())
	w.ledger.left(out, err)
	if err != nil && !errors.Is(err, picket.ErrLost) {
		w.violation(refusal, "in calm weather a release says %v", err)
	}
}
