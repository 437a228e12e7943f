package measure

import (
	"context"
	"fmt"
	"time"

	"github.com/picket-go/picket/lab/internal/result"
	"github.com/picket-go/picket/lab/internal/rival"
	"github.com/picket-go/picket/lab/internal/stats"
)

const (
	workers = 32
	clients = 4
)

// holds are the loads of the handoff: what a worker does under the lock.
var holds = []time.Duration{time.Millisecond, 0}

// Names of metrics.
const (
	SectionsPerSecond    = "sections_per_s"
	Sections             = "sections"
	WaitP50              = "wait_p50_ms"
	WaitP99              = "wait_p99_ms"
	WaitMax              = "wait_max_ms"
	Jain                 = "jain"
	RoundTripsPerSection = "round_trips_per_section"
	GaveUp               = "gave_up"  // sections that did not begin within Plan.Bound, or at the end of a round
	Overlaps             = "overlaps" // sections that began inside another
)

// Handoff measures how a lock that many want goes from one to the next, what it costs to wait, and how soon the next one is told.
func (b *Bench) Handoff(ctx context.Context) error {
	for round := range b.Plan.Rounds {
		for _, hold := range holds {
			for _, r := range b.waiting(round) {
				b.progress("handoff, %d workers, holds of %s, round %d of %d: %s", workers, hold, round+1, b.Plan.Rounds, r.Name)
				if err := b.contend(ctx, r, hold, round); err != nil {
					return err
				}
			}
		}
		for _, r := range b.waiting(round) {
			b.progress("handoff, one waiter, round %d of %d: %s", round+1, b.Plan.Rounds, r.Name)
			if err := b.tell(ctx, r, round); err != nil {
				return err
			}
		}
	}
	for _, r := range b.waiting(0) { // Once: it is long.
		b.progress("handoff, %d waiters for %s on a held key: %s", idlers, b.Plan.Idle, r.Name)
		if err := b.idle(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

func (b *Bench) contend(ctx context.Context, r rival.Rival, hold time.Duration, round int) error {
	return with(r, b.Server, clients, func(c []rival.Client) error {
		// A new key each round: a worker that hung may have left something on the old one.
		q := newContest(c, fmt.Sprintf("handoff:%s:%d", hold, round), hold, b.Plan.Bound)
		if err := q.run(ctx, b, r); err != nil {
			return err
		}
		at := result.HandoffOf(workers, int(hold.Milliseconds())).By(r.Name)
		waits, shares, total := q.told()
		if total == 0 {
			return fmt.Errorf("none of %d workers got the lock in %s: %w", workers, q.took, q.failure)
		}
		b.Samples.Add(at.Of(SectionsPerSecond), float64(total)/q.took.Seconds())
		b.Samples.Add(at.Of(Sections), float64(total))
		b.Samples.Add(at.Of(WaitP50), millis(stats.Percentile(waits, 50)))
		b.Samples.Add(at.Of(WaitP99), millis(stats.Percentile(waits, 99)))
		b.Samples.Add(at.Of(WaitMax), millis(stats.Percentile(waits, 100)))
		b.Samples.Add(at.Of(Jain), stats.Jain(shares))
		b.Samples.Add(at.Of(RoundTripsPerSection), float64(q.roundTrips)/float64(total))
		b.Samples.Add(at.Of(GaveUp), float64(q.gaveUp.Load()))
		b.Samples.Add(at.Of(Overlaps), float64(q.overlaps.Load()))
		return nil
	})
}
