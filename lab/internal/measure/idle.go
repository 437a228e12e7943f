package measure

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/picket-go/picket/lab/internal/result"
	"github.com/picket-go/picket/lab/internal/rival"
)

const idlers = 64

// Names of metrics.
const (
	CPUPercent               = "cpu_percent" // of one core, of this process
	CommandsPerWaiterAndTime = "commands_per_waiter_per_s"
)

// idle measures what it costs to wait: for the lock of somebody who does not release.
func (b *Bench) idle(ctx context.Context, r rival.Rival) error {
	return with(r, b.Server, clients, func(c []rival.Client) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		held, free := make(chan struct{}), make(chan struct{})
		var holder, waiters sync.WaitGroup
		var failure error
		holder.Go(func() {
			defer cancel()
			failure = c[0].Do(context.WithoutCancel(ctx), "idle", func() { close(held); <-free })
		})
		defer holder.Wait()
		defer close(free)
		select {
		case <-held:
		case <-ctx.Done():
			return fmt.Errorf("a free lock was not granted: %w", failure)
		}
		for i := range idlers {
			waiters.Go(func() { _ = c[i%len(c)].Do(ctx, "idle", func() {}) }) // It ends with ctx.
		}
		defer waiters.Wait()
		defer cancel()
		if err := pause(ctx, settle); err != nil {
			return err
		}
		return b.watchIdlers(ctx, r)
	})
}

// settle is what waiters may take to find that they must wait, and to subscribe.
const settle = time.Second / 2

func (b *Bench) watchIdlers(ctx context.Context, r rival.Rival) error {
	calls, err := b.roundTrips(ctx, r)
	if err != nil {
		return err
	}
	begin, cpu := time.Now(), processorTime()
	if err := pause(ctx, b.Plan.Idle); err != nil {
		return err
	}
	took, used := time.Since(begin), processorTime()-cpu
	after, err := b.roundTrips(ctx, r)
	if err != nil {
		return err
	}
	at := result.HeldFor(idlers).By(r.Name)
	if used > 0 {
		b.Samples.Add(at.Of(CPUPercent), 100*float64(used)/float64(took))
	}
	b.Samples.Add(at.Of(CommandsPerWaiterAndTime), float64(after-calls)/idlers/took.Seconds())
	return nil
}
