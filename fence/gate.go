package fence

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

// Gate guards resources inside one process: Do runs fn under the resource's mutex if token is not stale. The zero value is ready; a Gate must not be copied.
//
// High-water marks do not expire, because a holder may wake up after any time: a Gate keeps about 200 bytes and the name of every resource that ever passed,
// as long as it lives itself. Marks are in memory only: after a restart the first token passes, whichever it is.
type Gate struct {
	mu    sync.Mutex
	marks map[string]*mark
}

var _ Memory = (*Gate)(nil)

// mark is the memory of one resource.
type mark struct {
	turn chan struct{} // holds one element while somebody is inside; a channel, because waiting must end with a context
	seen atomic.Int64  // raised by whoever is inside, read by anybody
}

// insideKey finds in fn's context that this call chain is inside the resource; its value tells whether fn still runs.
type insideKey struct {
	gate     *Gate
	resource string
}

// Do runs fn under resource's mutex if token is not below the highest one seen, and returns what fn returns; else it returns a *StaleTokenError.
//
// The mark is raised before fn runs, and stays if fn fails or panics. Waiting for the mutex ends with ctx: the error then wraps ctx's and its cause, and neither has
// fn run nor the mark been raised. A Do on the same resource with fn's context would wait for itself and is refused at once.
func (g *Gate) Do(ctx context.Context, resource string, token int64, fn func(context.Context) error) error {
	m, err := g.enter(ctx, resource, token)
	if err != nil {
		return err
	}
	running := new(atomic.Bool)
	running.Store(true)
	defer func() {
		running.Store(false)
		<-m.turn
	}()
	return fn(context.WithValue(ctx, insideKey{g, resource}, running))
}

// Admit is Do without a function: when it returns nil, no Do with a smaller token is running or will run.
func (g *Gate) Admit(ctx context.Context, resource string, token int64) error {
	m, err := g.enter(ctx, resource, token)
	if err != nil {
		return err
	}
	<-m.turn
	return nil
}

// enter takes resource's turn and raises its mark. The caller gives the turn back.
func (g *Gate) enter(ctx context.Context, resource string, token int64) (*mark, error) {
	if token < 1 {
		return nil, fmt.Errorf("%w %q: %d is not a token, those of a lock begin at 1; nothing was done", ErrNoToken, resource, token)
	}
	if running, ok := ctx.Value(insideKey{g, resource}).(*atomic.Bool); ok && running.Load() {
		return nil, fmt.Errorf("fence: resource %q: this call chain is inside its gate already and would wait for itself", resource)
	}
	m := g.mark(resource)
	if seen := m.seen.Load(); token < seen { // a stale caller need not queue to learn it
		return nil, &StaleTokenError{Resource: resource, Have: token, Seen: seen}
	}
	select {
	case m.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ended(ctx, resource)
	}
	if ctx.Err() != nil { // select picks either when both are ready
		<-m.turn
		return nil, ended(ctx, resource)
	}
	if seen := m.seen.Load(); token < seen {
		<-m.turn
		return nil, &StaleTokenError{Resource: resource, Have: token, Seen: seen}
	}
	m.seen.Store(token)
	return m, nil
}

func (g *Gate) mark(resource string) *mark {
	g.mu.Lock()
	defer g.mu.Unlock()
	m, ok := g.marks[resource]
	if !ok {
		if g.marks == nil {
			g.marks = make(map[string]*mark)
		}
		m = &mark{turn: make(chan struct{}, 1)}
		g.marks[resource] = m
	}
	return m
}

// ended says that ctx ended the waiting, and why if it knows: a lease's context has the loss as its cause.
func ended(ctx context.Context, resource string) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return fmt.Errorf("fence: gate of resource %q not entered, nothing was done: %w", resource, cause)
	}
	return fmt.Errorf("fence: gate of resource %q not entered, nothing was done: %w: %w", resource, err, cause)
}
