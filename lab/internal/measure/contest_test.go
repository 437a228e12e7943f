package measure

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/picket-go/picket/lab/internal/result"
	"github.com/picket-go/picket/lab/internal/rival"
	"github.com/picket-go/picket/lab/internal/servertest"
)

// fake is a lock library in memory.
type fake func(ctx context.Context, key string, fn func()) error

func (f fake) Do(ctx context.Context, key string, fn func()) error { return f(ctx, key, fn) }

func (fake) Close() error { return nil }

// contend runs one round of 1 ms holds and returns its metrics.
func contend(t *testing.T, lock fake) func(metric string) float64 {
	t.Helper()
	b := &Bench{Plan: Plan{Handoff: 300 * time.Millisecond, Bound: 100 * time.Millisecond, Drain: 100 * time.Millisecond}, Server: servertest.Start(t)}
	r := rival.Rival{Name: "fake", Open: func([]string) (rival.Client, error) { return lock, nil }}
	if err := b.contend(t.Context(), r, time.Millisecond, 0); err != nil {
		t.Fatal(err)
	}
	return func(metric string) float64 {
		v, ok := b.Samples.Median(result.HandoffOf(workers, 1).By("fake").Of(metric))
		if !ok {
			t.Fatalf("%s was not measured", metric)
		}
		return v
	}
}

func TestFairLockIsSeenToBeFair(t *testing.T) {
	t.Parallel()
	queue := make(chan struct{}, 1) // Go's channels serve senders in their order
	got := contend(t, func(_ context.Context, _ string, fn func()) error {
		queue <- struct{}{}
		fn()
		<-queue
		return nil
	})
	if got(Jain) < 0.95 || got(Overlaps) > 0 || got(GaveUp) > 0 {
		t.Errorf("Jain %v, %v overlaps, %v gave up", got(Jain), got(Overlaps), got(GaveUp))
	}
	if turn := 1000 * workers / got(SectionsPerSecond); got(WaitP50) < turn/2 || got(WaitP50) > 2*turn {
		t.Errorf("the median wait is %v ms, a turn of all takes %v ms", got(WaitP50), turn)
	}
}

func TestLockThatExcludesNobodyIsFoundOut(t *testing.T) {
	t.Parallel()
	got := contend(t, func(_ context.Context, _ string, fn func()) error {
		fn()
		return nil
	})
	if got(Overlaps) == 0 {
		t.Error("no overlap was counted")
	}
}

// rueidislock can lose a wake-up, and then waits for ever.
func TestWaiterThatIsNeverWokenIsCountedAndHangsNothing(t *testing.T) {
	t.Parallel()
	var first sync.Once
	lucky := make(chan struct{}, 1)
	got := contend(t, func(ctx context.Context, _ string, fn func()) error {
		first.Do(func() { lucky <- struct{}{} })
		select {
		case <-lucky:
			fn()
			lucky <- struct{}{}
			<-time.After(time.Millisecond) // the others get a chance, and sleep through half of them
			return nil
		case <-time.After(20 * time.Millisecond):
			<-ctx.Done()
			return ctx.Err()
		}
	})
	if got(GaveUp) == 0 || got(WaitMax) < 50 {
		t.Errorf("%v gave up, the longest wait is %v ms", got(GaveUp), got(WaitMax))
	}
}

func TestRoundDoesNotEndBeforeAnybodyWasIn(t *testing.T) {
	t.Parallel()
	got := contend(t, func(_ context.Context, _ string, fn func()) error {
		<-time.After(600 * time.Millisecond) // the round is 300 long, after 60
		fn()
		return nil
	})
	if got(Sections) == 0 {
		t.Error("no section was counted")
	}
}

func TestLoadKeepsItsPaceAndCountsFailures(t *testing.T) {
	t.Parallel()
	l := load{callers: 4, rate: 200, client: fake(func(_ context.Context, key string, fn func()) error {
		if key == "pairs:3" {
			return errors.New("no")
		}
		fn()
		return nil
	})}
	w, err := l.measure(t.Context(), 50*time.Millisecond, func(ctx context.Context) error { return pause(ctx, 500*time.Millisecond) })
	if err != nil || w.failed == 0 || w.failure == nil || w.perSecond > 170 {
		t.Errorf("%+v, %v: want three quarters of 200 pairs a second, and failures", w, err)
	}
}
