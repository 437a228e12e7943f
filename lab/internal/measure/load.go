package measure

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/picket-go/picket/lab/internal/rival"
)

// load is callers that acquire and release, each on a key of its own.
type load struct {
	client  rival.Client
	callers int
	rate    float64 // pairs a second of all together; 0 is as fast as they can

	pairs, failed atomic.Int64
	longest       atomic.Int64 // nanoseconds
	failure       atomic.Pointer[error]
}

// window is what a load did in a stretch of time.
type window struct {
	perSecond float64
	failed    int64
	longest   time.Duration
	failure   error // one of failed
}

// measure runs the load until during returns, after a warm-up in which connections are dialled and scripts are loaded.
func (l *load) measure(ctx context.Context, warmUp time.Duration, during func(context.Context) error) (window, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var stop atomic.Bool
	var callers sync.WaitGroup
	for i := range l.callers {
		callers.Go(func() { l.call(ctx, i, &stop) })
	}
	err := pause(ctx, warmUp)
	l.longest.Store(0)
	begin, pairs, failed := time.Now(), l.pairs.Load(), l.failed.Load()
	if err == nil {
		err = during(ctx)
	}
	for err == nil && l.pairs.Load() == pairs && l.failure.Load() == nil && time.Since(begin) < drainPairs {
		err = pause(ctx, drainPairs/100) // a machine so slow that nobody is through yet
	}
	took := time.Since(begin)
	w := window{
		perSecond: float64(l.pairs.Load()-pairs) / took.Seconds(),
		failed:    l.failed.Load() - failed,
		longest:   time.Duration(l.longest.Load()),
	}
	if f := l.failure.Load(); f != nil {
		w.failure = *f
	}
	stop.Store(true) // first without cancel: a lock whose ctx ends half-way may stay behind
	leave := time.AfterFunc(drainPairs, cancel)
	defer leave.Stop()
	callers.Wait()
	return w, err
}

// drainPairs is what the last pairs may take; it matters only when the server is gone.
const drainPairs = 5 * time.Second

func (l *load) call(ctx context.Context, caller int, stop *atomic.Bool) {
	key := "pairs:" + strconv.Itoa(caller)
	begin := time.Now()
	for n := 0; !stop.Load() && ctx.Err() == nil; n++ {
		if l.rate > 0 {
			due := begin.Add(time.Duration(float64(n*l.callers+caller) / l.rate * float64(time.Second)))
			if pause(ctx, time.Until(due)) != nil {
				return
			}
		}
		before := time.Now()
		if err := l.client.Do(ctx, key, func() {}); err != nil {
			err = fmt.Errorf("%s: %w", key, err)
			l.failure.CompareAndSwap(nil, &err)
			l.failed.Add(1)
			_ = pause(ctx, time.Millisecond) // an error that comes at once must not make a busy loop
			continue
		}
		l.pairs.Add(1)
		l.atLeast(time.Since(before))
	}
}

func (l *load) atLeast(d time.Duration) {
	for {
		longest := l.longest.Load()
		if int64(d) <= longest || l.longest.CompareAndSwap(longest, int64(d)) {
			return
		}
	}
}

// pause returns after d, or with ctx's error when that ends first.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
