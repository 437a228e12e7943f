package measure

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/picket-go/picket"
	"github.com/picket-go/picket/lab/internal/result"
	"github.com/picket-go/picket/lab/internal/rival"
	"github.com/picket-go/picket/lab/internal/wire"
)

// beside is the load next to the leases.
const beside = 16

// Names of metrics.
const (
	Lost                  = "lost"
	RoundTripsPerInterval = "round_trips_per_interval" // a third of the TTL, in which every lease is renewed once
	PairsPerSecondAlone   = "pairs_per_s_alone"
	PairsPerSecondBeside  = "pairs_per_s_beside"
	BesideRatio           = "beside_ratio"
	LongestAlone          = "longest_pair_alone_ms"
	LongestBeside         = "longest_pair_beside_ms"
)

// Renew holds many leases for three TTLs and measures what that costs those who acquire and release beside them. Only Picket: its rivals renew one lock a call, or none.
func (b *Bench) Renew(ctx context.Context) error {
	acquirers, err := rival.OpenPicket(b.Server.Addrs(), nil)
	if err != nil {
		return err
	}
	defer acquirers.Close() //nolint:errcheck // what it did is measured by then
	for round := range renewRounds(b.Plan) {
		b.progress("renew, round %d: %d acquirers alone", round+1, beside)
		alone, err := b.acquire(ctx, acquirers, func(ctx context.Context) error { return pause(ctx, b.Plan.Alone) })
		if err != nil {
			return err
		}
		if err := b.renewBeside(ctx, acquirers, alone); err != nil {
			return err
		}
	}
	return nil
}

// renewRounds are fewer than others: each is three TTLs long, and steady.
func renewRounds(p Plan) int { return max(1, p.Rounds/5) }

func (b *Bench) acquire(ctx context.Context, client rival.Client, during func(context.Context) error) (window, error) {
	l := load{client: client, callers: beside}
	w, err := l.measure(ctx, b.Plan.Alone/5, during)
	if err == nil && w.perSecond == 0 {
		err = fmt.Errorf("not one of %d acquirers got its lock: %w", beside, w.failure)
	}
	return w, err
}

func (b *Bench) renewBeside(ctx context.Context, acquirers rival.Client, alone window) (err error) {
	p := &portfolio{}
	counted := wire.NewTap(false)
	p.Picket, err = rival.OpenPicket(b.Server.Addrs(), counted, picket.WithTTL(b.Plan.TTL), picket.WithObserver(picket.Observer{LeaseChange: p.watch}))
	if err != nil {
		return err
	}
	defer func() {
		if failed := p.Close(); err == nil {
			err = failed
		}
	}()
	b.progress("renew: acquiring %d leases", b.Plan.Leases)
	if err := p.fill(ctx, b.Plan.Leases); err != nil {
		return err
	}
	b.progress("renew: %d leases for %s, %d acquirers beside them", b.Plan.Leases, 3*b.Plan.TTL, beside)
	var roundTrips int64
	w, err := b.acquire(ctx, acquirers, func(ctx context.Context) error {
		before := counted.Count()
		err := pause(ctx, 3*b.Plan.TTL)
		roundTrips = counted.Count() - before
		return err
	})
	if err != nil {
		return err
	}
	at := result.RenewOf(b.Plan.Leases).By("picket")
	b.Samples.Add(at.Of(Lost), float64(p.gone()))
	b.Samples.Add(at.Of(RoundTripsPerInterval), float64(roundTrips)/9)
	b.Samples.Add(at.Of(PairsPerSecondAlone), alone.perSecond)
	b.Samples.Add(at.Of(PairsPerSecondBeside), w.perSecond)
	b.Samples.Add(at.Of(BesideRatio), w.perSecond/alone.perSecond)
	b.Samples.Add(at.Of(LongestAlone), millis(alone.longest))
	b.Samples.Add(at.Of(LongestBeside), millis(w.longest))
	b.progress("renew: releasing %d leases", b.Plan.Leases)
	p.empty(ctx)
	return nil
}

// portfolio is many leases of one Locker.
type portfolio struct {
	*rival.Picket
	lost   atomic.Int64
	mu     sync.Mutex
	leases []*picket.Lease
}

func (p *portfolio) watch(e picket.LeaseEvent) {
	if e.To == picket.StateLost {
		p.lost.Add(1)
	}
}

// atOnce is how many acquire and release them.
const atOnce = 256

func (p *portfolio) fill(ctx context.Context, n int) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	for first := range atOnce {
		all.Go(func() {
			for i := first; i < n && ctx.Err() == nil; i += atOnce {
				lease, err := p.Locker.TryAcquire(ctx, "renew:"+strconv.Itoa(i))
				if err != nil {
					cancel(err)
					return
				}
				p.mu.Lock()
				p.leases = append(p.leases, lease)
				p.mu.Unlock()
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

// gone counts the leases that were lost, or are over and it has not been noticed.
func (p *portfolio) gone() int64 {
	var over int64
	for _, l := range p.leases {
		if l.Check() != nil {
			over++
		}
	}
	return max(over, p.lost.Load())
}

func (p *portfolio) empty(ctx context.Context) {
	var all sync.WaitGroup
	for first := range atOnce {
		all.Go(func() {
			for i := first; i < len(p.leases) && ctx.Err() == nil; i += atOnce {
				_ = p.leases[i].Release(ctx) // Lost ones have been counted.
			}
		})
	}
	all.Wait()
}
