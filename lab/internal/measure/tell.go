package measure

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/picket-go/picket/lab/internal/result"
	"github.com/picket-go/picket/lab/internal/rival"
	"github.com/picket-go/picket/lab/internal/stats"
)

// Names of metrics.
const (
	ToldP50        = "told_p50_us"
	PingP50        = "ping_p50_us"
	ToldRoundTrips = "told_round_trips" // ToldP50 in PingP50 of the same round
)

// tell measures the time from the release to the moment when the only waiter, in another client, is told, and the round trip of a PING under the same conditions.
func (b *Bench) tell(ctx context.Context, r rival.Rival, round int) error {
	return with(r, b.Server, 2, func(c []rival.Client) error {
		ping := redis.NewClient(&redis.Options{Addr: b.Server.Addr, PoolSize: 1})
		defer ping.Close() //nolint:errcheck // nothing is left to send
		var told, pings []time.Duration
		for i := range b.Plan.Told {
			d, err := b.handOver(ctx, c[i%2], c[1-i%2], fmt.Sprintf("tell:%d", round))
			if err != nil {
				return err
			}
			told = append(told, d)
			if err := pause(ctx, aWhile()); err != nil { // as before the release: a machine that has dozed off is slower
				return err
			}
			begin := time.Now()
			if err := ping.Ping(ctx).Err(); err != nil {
				return err
			}
			pings = append(pings, time.Since(begin))
		}
		at := result.HeldFor(1).By(r.Name)
		b.Samples.Add(at.Of(ToldP50), micros(stats.Median(told)))
		b.Samples.Add(at.Of(PingP50), micros(stats.Median(pings)))
		b.Samples.Add(at.Of(ToldRoundTrips), float64(stats.Median(told))/float64(stats.Median(pings)))
		return nil
	})
}

// handOver returns how long after from's release to is told. A waiter that is never told was told after Plan.Bound.
func (b *Bench) handOver(ctx context.Context, from, to rival.Client, key string) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, b.Plan.Bound)
	defer cancel()
	var released, told time.Time
	waited := make(chan error, 1)
	err := from.Do(ctx, key, func() {
		go func() { waited <- to.Do(ctx, key, func() { told = time.Now() }) }()
		_ = pause(ctx, aWhile())
		released = time.Now()
	})
	if released.IsZero() {
		return 0, fmt.Errorf("a free lock was not granted: %w", err)
	}
	if failed := <-waited; told.IsZero() && !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return 0, failed
	}
	if told.IsZero() {
		return b.Plan.Bound, nil
	}
	return told.Sub(released), err
}

// aWhile is long enough for the other to be waiting, and never in step with its polls.
func aWhile() time.Duration { return time.Duration(10+rand.IntN(10)) * time.Millisecond }
