package measure

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/picket-go/picket/lab/internal/rival"
)

// contest is workers, spread over clients, that all want one key again and again.
type contest struct {
	clients []rival.Client
	key     string
	hold    time.Duration
	bound   time.Duration // of one section: a lost wake-up must not hang the benchmark
	workers []worker

	counting, stop             atomic.Bool
	inside                     atomic.Int32
	sections, overlaps, gaveUp atomic.Int64

	took       time.Duration
	roundTrips int64
	failure    error // of one that gave up

	mu sync.Mutex // failure
}

// worker is what one of them saw while it counted.
type worker struct {
	sections int
	waits    []time.Duration
}

func newContest(c []rival.Client, key string, hold, bound time.Duration) *contest {
	return &contest{clients: c, key: key, hold: hold, bound: bound, workers: make([]worker, workers)}
}

// run lets them work until it is enough.
func (q *contest) run(ctx context.Context, b *Bench, r rival.Rival) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var all sync.WaitGroup
	for i := range q.workers {
		all.Go(func() { q.work(ctx, i) })
	}
	err := q.watch(ctx, b, r)
	q.stop.Store(true)
	// Those who wait fairly are through at once. Who is not by then counts as one that gave up.
	leave := time.AfterFunc(b.Plan.Drain, cancel)
	defer leave.Stop()
	all.Wait()
	return err
}

func (q *contest) watch(ctx context.Context, b *Bench, r rival.Rival) error {
	if err := pause(ctx, b.Plan.Handoff/5); err != nil {
		return err
	}
	before, err := b.roundTrips(ctx, r)
	if err != nil {
		return err
	}
	q.counting.Store(true)
	begin := time.Now()
	for !q.enough(b.Plan, time.Since(begin)) {
		if err := pause(ctx, min(b.Plan.Handoff, 100*time.Millisecond)); err != nil {
			return err
		}
	}
	q.took = time.Since(begin)
	q.counting.Store(false)
	after, err := b.roundTrips(ctx, r)
	q.roundTrips = after - before
	return err
}

// enough tells whether what was counted will do: for Plan.Handoff, or up to three times as long until there are Plan.Sections. On a machine that is so slow that nobody was
// in by then, the first that is in or gives up ends the round.
func (q *contest) enough(p Plan, took time.Duration) bool {
	switch sections := q.sections.Load(); {
	case took < p.Handoff:
		return false
	case sections == 0:
		return q.gaveUp.Load() > 0
	default:
		return sections >= int64(p.Sections) || took >= 3*p.Handoff
	}
}

func (q *contest) work(ctx context.Context, i int) {
	client := q.clients[i%len(q.clients)]
	for !q.stop.Load() && ctx.Err() == nil {
		began, told := time.Now(), false
		counted := q.counting.Load()
		section, cancel := context.WithTimeout(ctx, q.bound)
		err := client.Do(section, q.key, func() {
			told = true
			q.section(i, time.Since(began))
		})
		cancel()
		if told || err == nil {
			continue
		}
		if counted || q.counting.Load() { // A wait without end is a wait all the same.
			q.workers[i].waits = append(q.workers[i].waits, time.Since(began))
			q.gaveUp.Add(1)
			q.note(err)
		}
		_ = pause(ctx, time.Millisecond) // an error that comes at once must not make a busy loop
	}
}

// section is what is done under the lock.
func (q *contest) section(i int, waited time.Duration) {
	if q.inside.Add(1) > 1 {
		q.overlaps.Add(1)
	}
	if q.counting.Load() {
		q.workers[i].sections++
		q.workers[i].waits = append(q.workers[i].waits, waited)
		q.sections.Add(1)
	}
	if q.hold > 0 {
		time.Sleep(q.hold)
	}
	q.inside.Add(-1)
}

func (q *contest) note(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.failure == nil {
		q.failure = err
	}
}

// told returns, when all are through, what they waited, how many sections each had, and how many all had.
func (q *contest) told() (waits []time.Duration, shares []int, total int) {
	for _, w := range q.workers {
		waits = slices.Concat(waits, w.waits)
		shares = append(shares, w.sections)
		total += w.sections
	}
	return waits, shares, total
}
