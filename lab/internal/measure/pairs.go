package measure

import (
	"context"
	"fmt"
	"time"

	"github.com/picket-go/picket/lab/internal/limit"
	"github.com/picket-go/picket/lab/internal/result"
	"github.com/picket-go/picket/lab/internal/rival"
)

// crowd is the load under which the limit and the bystander are measured.
const crowd = 256

// Names of metrics.
const (
	PairsPerSecond    = "pairs_per_s"
	Failed            = "failed"
	AcquiresPerSecond = "acquires_per_s"
	ReleasesPerSecond = "releases_per_s"
	PacedPerSecond    = "paced_pairs_per_s"
	GetP50            = "get_p50_us"
	GetP99            = "get_p99_us"
)

// Nobody is the impl of what is measured without any load.
const Nobody = "nobody"

// Pairs measures how many times a second callers acquire and release, each on a key of its own, and how long somebody else's GET takes meanwhile.
func (b *Bench) Pairs(ctx context.Context) error {
	for round := range b.Plan.Rounds {
		if err := b.pairsRound(ctx, b.Server, round, result.PairsBy(crowd), result.PairsBy(16), result.PairsBy(1)); err != nil {
			return err
		}
		if b.Limit {
			b.progress("pairs, round %d of %d: the server's limit", round+1, b.Plan.Rounds)
			if err := b.limitOf(ctx); err != nil {
				return err
			}
		}
	}
	return b.bystander(ctx)
}

// pairsRound has each of the rivals work on a server or a Cluster under each of the loads.
func (b *Bench) pairsRound(ctx context.Context, on target, round int, loads ...result.Case) error {
	for _, at := range loads {
		for _, r := range b.inTurns(round) {
			b.progress("%s, %d callers, round %d of %d: %s", at.Bench, at.Callers, round+1, b.Plan.Rounds, r.Name)
			if err := b.pairsOf(ctx, on, r, at.By(r.Name)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *Bench) pairsOf(ctx context.Context, on target, r rival.Rival, at result.Case) error {
	return with(r, on, 1, func(c []rival.Client) error {
		l := load{client: c[0], callers: at.Callers}
		w, err := l.measure(ctx, b.Plan.Pairs/5, func(ctx context.Context) error { return pause(ctx, b.Plan.Pairs) })
		if err != nil {
			return err
		}
		if w.perSecond == 0 {
			return fmt.Errorf("not one of %d callers got its lock in %s: %w", at.Callers, b.Plan.Pairs, w.failure)
		}
		b.Samples.Add(at.Of(PairsPerSecond), w.perSecond)
		b.Samples.Add(at.Of(Failed), float64(w.failed))
		return nil
	})
}

// limitOf replays what one acquire and one release of Picket send, as fast as the server takes it.
func (b *Bench) limitOf(ctx context.Context) error {
	l, err := limit.Measure(ctx, b.Server, b.Plan.LimitCalls)
	if err != nil {
		return fmt.Errorf("the server's limit: %w", err)
	}
	at := result.PairsBy(crowd).By(Limit)
	b.Samples.Add(at.Of(PairsPerSecond), l.Pairs())
	b.Samples.Add(at.Of(AcquiresPerSecond), l.Acquires)
	b.Samples.Add(at.Of(ReleasesPerSecond), l.Releases)
	return nil
}

// pacer sets the pace for the bystander's sake: all do as many pairs a second as it can.
const pacer = "redislock"

// bystander measures the GETs of another process while the rivals do the same work. Who cannot keep the pace does what it can; the paced pairs say so.
func (b *Bench) bystander(ctx context.Context) error {
	rate, _ := b.Samples.Median(result.PairsBy(crowd).By(pacer).Of(PairsPerSecond)) // 0 if it was not asked for: as fast as they can
	for round := range b.Plan.Rounds {
		b.progress("GETs of somebody else, round %d of %d: alone", round+1, b.Plan.Rounds)
		if err := b.get(ctx, result.PairsBy(crowd).By(Nobody)); err != nil {
			return err
		}
		for _, r := range b.inTurns(round) {
			b.progress("GETs of somebody else, round %d of %d: beside %s", round+1, b.Plan.Rounds, r.Name)
			err := with(r, b.Server, 1, func(c []rival.Client) error {
				at := result.PairsBy(crowd).By(r.Name)
				l := load{client: c[0], callers: crowd, rate: rate}
				w, err := l.measure(ctx, b.Plan.Bystander/5, func(ctx context.Context) error { return b.get(ctx, at) })
				b.Samples.Add(at.Of(PacedPerSecond), w.perSecond)
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *Bench) get(ctx context.Context, at result.Case) error {
	p, err := runProbe(ctx, b.Server.Addr, b.Plan.Bystander)
	if err != nil {
		return err
	}
	b.Samples.Add(at.Of(GetP50), micros(p.P50))
	b.Samples.Add(at.Of(GetP99), micros(p.P99))
	return nil
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
