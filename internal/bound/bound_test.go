package bound_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/picket-go/picket/internal/bound"
)

type valueKey struct{}

var errShift = errors.New("the shift is over")

func TestItEndsAfterItsBound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := bound.New(t.Context(), time.Second)
		defer c.Stop()
		want := time.Now().Add(time.Second)
		if d, ok := c.Deadline(); !ok || !d.Equal(want) {
			t.Errorf("deadline %v %v, want %v", d, ok, want)
		}
		<-c.Done()
		if !time.Now().Equal(want) || !errors.Is(c.Err(), context.DeadlineExceeded) {
			t.Errorf("ended at %v with %v", time.Now(), c.Err())
		}
	})
}

func TestItHasNoTimerUntilSomebodyListens(t *testing.T) {
	parent := context.WithValue(t.Context(), valueKey{}, "v")
	var c *bound.Context
	calls := testing.AllocsPerRun(100, func() {
		c = bound.New(parent, time.Hour)
		_ = c.Err()
		_, _ = c.Deadline()
		_ = c.Value(valueKey{})
		c.Stop()
	})
	if calls > 1 {
		t.Errorf("%v allocations for a context nobody waits for, want 1", calls)
	}
	synctest.Test(t, func(t *testing.T) {
		c := bound.New(t.Context(), time.Second)
		time.Sleep(time.Second - 1)
		if c.Err() != nil {
			t.Errorf("ended early: %v", c.Err())
		}
		time.Sleep(1 * time.Nanosecond)
		if !errors.Is(c.Err(), context.DeadlineExceeded) { // told exactly, although no timer runs
			t.Errorf("at its bound it says %v", c.Err())
		}
	})
}

func TestStopEndsItAtOnce(t *testing.T) {
	t.Parallel()
	listened := bound.New(t.Context(), time.Hour)
	done := listened.Done()
	unheard := bound.New(t.Context(), time.Hour)
	for _, c := range []*bound.Context{listened, unheard} {
		c.Stop()
		c.Stop()
		if !errors.Is(c.Err(), context.Canceled) {
			t.Errorf("stopped, but says %v", c.Err())
		}
		<-c.Done()
	}
	<-done
}

func TestItsParentsEndAndCauseAreItsOwn(t *testing.T) {
	t.Parallel()
	for name, listen := range map[string]bool{"heard": true, "unheard": false} {
		parent, cancel := context.WithCancelCause(t.Context())
		c := bound.New(parent, time.Hour)
		defer c.Stop()
		if listen {
			c.Done()
		}
		cancel(errShift)
		if !errors.Is(c.Err(), context.Canceled) || !errors.Is(context.Cause(c), errShift) {
			t.Errorf("%s: %v, cause %v", name, c.Err(), context.Cause(c))
		}
		<-c.Done()
	}
}

func TestAParentsEarlierDeadlineIsItsOwn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parent, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		c := bound.New(parent, time.Hour)
		defer c.Stop()
		want, _ := parent.Deadline()
		if got, _ := c.Deadline(); !got.Equal(want) {
			t.Errorf("deadline %v, want %v", got, want)
		}
		<-c.Done()
		if !time.Now().Equal(want) {
			t.Errorf("ended at %v, want %v", time.Now(), want)
		}
	})
}

func TestADetachedOneKeepsOnlyTheValues(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parent, cancel := context.WithCancelCause(context.WithValue(t.Context(), valueKey{}, "v"))
		cancel(errShift)
		c := bound.Detached(parent, time.Second)
		defer c.Stop()
		if c.Err() != nil || c.Value(valueKey{}) != "v" {
			t.Errorf("%v, value %v", c.Err(), c.Value(valueKey{}))
		}
		if cause := context.Cause(c); cause != nil {
			t.Errorf("going on, but its cause is %v", cause)
		}
		began := time.Now()
		<-c.Done()
		if took := time.Since(began); took != time.Second || !errors.Is(context.Cause(c), context.DeadlineExceeded) {
			t.Errorf("ended after %s, cause %v", took, context.Cause(c))
		}
		if c.Value(valueKey{}) != "v" {
			t.Error("the value is gone")
		}
	})
}

// A context that is not of package context costs its children a goroutine each, unless they find one of that package behind it.
func TestChildrenStartNoGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := bound.New(t.Context(), time.Hour)
		before := runtime.NumGoroutine()
		var children []context.Context
		for range 100 {
			child, cancel := context.WithCancel(c)
			defer cancel()
			children = append(children, child)
		}
		if n := runtime.NumGoroutine() - before; n > 10 { // other tests may end or begin one meanwhile
			t.Errorf("100 children started %d goroutines", n)
		}
		c.Stop()
		for _, child := range children {
			<-child.Done()
		}
	})
}

func TestEndsOfKnowsWhatElseThanItsBoundCanEndAContext(t *testing.T) {
	t.Parallel()
	ending, cancel := context.WithCancel(t.Context())
	defer cancel()
	forever := context.WithoutCancel(t.Context())
	for _, c := range []struct {
		name string
		ctx  context.Context
		want bool
	}{
		{"a context that cannot end", forever, true},
		{"none", bound.None(), true},
		{"a context that can be cancelled", ending, false},
		{"a bound on one that cannot end", bound.New(forever, time.Hour), true},
		{"a bound on one that can be cancelled", bound.New(ending, time.Hour), false},
		{"a detached bound", bound.Detached(ending, time.Hour), true},
		{"a bound on a detached bound", bound.New(bound.Detached(ending, time.Hour), time.Hour), true},
		{"a bound on a bound that can be cancelled", bound.New(bound.New(ending, time.Hour), time.Hour), false},
	} {
		if got := bound.EndsOf(c.ctx).Parent == nil; got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// TestItEndsWithItsLife, whether somebody listens or not, and a life that ended before it.
func TestItEndsWithItsLife(t *testing.T) {
	t.Parallel()
	life, die := context.WithCancel(t.Context())
	listened := bound.New(t.Context(), time.Hour).Within(life)
	done := listened.Done()
	unheard := bound.Detached(t.Context(), time.Hour).Within(life)
	if listened.Err() != nil || unheard.Err() != nil {
		t.Fatalf("%v, %v before the end", listened.Err(), unheard.Err())
	}
	die()
	<-done
	for _, c := range []*bound.Context{listened, unheard, bound.New(t.Context(), time.Hour).Within(life)} {
		if !errors.Is(c.Err(), context.Canceled) {
			t.Errorf("its life is over, but it says %v", c.Err())
		}
		<-c.Done()
		c.Stop()
	}
}

func TestEndsOfFindsWhatIsBehindAContext(t *testing.T) {
	t.Parallel()
	parent, cancel := context.WithCancel(t.Context())
	defer cancel()
	life, die := context.WithCancel(t.Context())
	defer die()
	inner := bound.New(parent, time.Second).Within(life)
	soon, _ := inner.Deadline()
	for _, c := range []struct {
		name         string
		ctx          context.Context
		parent, life bool
	}{
		{"a plain context", parent, true, false},
		{"a bound", inner, true, true},
		{"a longer bound on a bound", bound.New(inner, time.Hour), true, true},
		{"a detached bound", bound.Detached(parent, time.Second).Within(life), false, true},
		{"none", bound.None(), false, false},
	} {
		e := bound.EndsOf(c.ctx)
		if (e.Parent != nil) != c.parent || (e.Life != nil) != c.life {
			t.Errorf("%s: parent %v, life %v", c.name, e.Parent, e.Life)
		}
		if e.Bound && e.Deadline.After(soon.Add(time.Second)) {
			t.Errorf("%s: ends at %v, want about %v", c.name, e.Deadline, soon)
		}
	}
}

func TestNoneNeverEnds(t *testing.T) {
	t.Parallel()
	c := bound.None()
	if _, ok := c.Deadline(); ok || c.Done() != nil || c.Err() != nil || c.Value(valueKey{}) != nil {
		t.Errorf("%v has an end or a value", c)
	}
}
