// Package bound has a context that a deadline ends and whose timer exists only if somebody listens.
//
// A lock is acquired and released in well under a millisecond, each time with a bound of seconds that almost never matters. A timer, a channel and a cancel function for
// each would cost more than the lock.
package bound

import (
	"context"
	"sync"
	"time"
)

// Context ends with its parent, with its life, after its bound, or when it is stopped.
type Context struct {
	ctx      context.Context // the parent, or who only lends its values
	life     context.Context // nil: none
	deadline time.Time

	mu      sync.Mutex
	armed   context.Context // made by the first Done
	cancel  context.CancelFunc
	stopped bool

	detached bool // ctx is no parent
}

var _ context.Context = (*Context)(nil)

// None returns a context that never ends and has no values: of work that nobody asked for.
func None() context.Context { return none{} }

// New returns a child of parent that ends after d at the latest.
func New(parent context.Context, d time.Duration) *Context {
	return Until(parent, time.Now().Add(d))
}

// Until returns a child of parent that ends at deadline at the latest.
func Until(parent context.Context, deadline time.Time) *Context {
	return &Context{ctx: parent, deadline: deadline}
}

// Detached returns a context with the values of ctx that ends after d, whatever becomes of ctx.
func Detached(ctx context.Context, d time.Duration) *Context {
	return &Context{ctx: ctx, detached: true, deadline: time.Now().Add(d)}
}

// Within makes c end with life too, which many contexts share. To be called before anything else.
func (c *Context) Within(life context.Context) *Context {
	c.life = life
	return c
}

// Ends is what can end a context, for who waits without a timer of the context's own.
type Ends struct {
	Parent, Life <-chan struct{} // nil: cannot end
	Deadline     time.Time       // of its bounds, if Bound
	Bound        bool
}

// EndsOf looks through Contexts at what is behind them. A Stop is not among its findings: who waits is still at work with ctx.
func EndsOf(ctx context.Context) (e Ends) {
	for {
		c, ok := ctx.(*Context)
		if !ok {
			e.Parent = ctx.Done()
			return e
		}
		if !e.Bound || c.deadline.Before(e.Deadline) {
			e.Deadline, e.Bound = c.deadline, true
		}
		if e.Life == nil && c.life != nil {
			e.Life = c.life.Done()
		}
		if c.detached {
			return e
		}
		ctx = c.ctx
	}
}

// Stop ends c and frees its timer.
func (c *Context) Stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
	if c.cancel != nil {
		c.cancel()
	}
}

// Deadline returns the earlier of the bound and the parent's deadline.
func (c *Context) Deadline() (time.Time, bool) {
	if !c.detached {
		if d, ok := c.ctx.Deadline(); ok && d.Before(c.deadline) {
			return d, true
		}
	}
	return c.deadline, true
}

// Done starts the timer.
func (c *Context) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.armed == nil {
		parent := c.ctx
		if c.detached {
			parent = context.WithoutCancel(parent)
		}
		c.armed, c.cancel = context.WithDeadline(parent, c.deadline)
		if c.life != nil {
			c.cancel = both(c.cancel, context.AfterFunc(c.life, c.cancel))
		}
		if c.stopped {
			c.cancel()
		}
	}
	return c.armed.Done()
}

func both(cancel context.CancelFunc, unhook func() bool) context.CancelFunc {
	return func() {
		unhook()
		cancel()
	}
}

// Err tells the end exactly, also when no timer has been started.
func (c *Context) Err() error {
	c.mu.Lock()
	armed, stopped := c.armed, c.stopped
	c.mu.Unlock()
	switch {
	case armed != nil && armed.Err() != nil:
		return armed.Err()
	case stopped, c.life != nil && c.life.Err() != nil:
		return context.Canceled
	case !c.detached && c.ctx.Err() != nil:
		return c.ctx.Err()
	case !time.Now().Before(c.deadline):
		return context.DeadlineExceeded
	}
	return nil
}

// Value is asked of the armed context once there is one, so that the context package finds its own parent there and starts no goroutine for children.
func (c *Context) Value(key any) any {
	c.mu.Lock()
	armed := c.armed
	c.mu.Unlock()
	switch {
	case armed != nil:
		return armed.Value(key)
	case c.detached:
		return context.WithoutCancel(c.ctx).Value(key) // without it the cause of the end that was left behind
	}
	return c.ctx.Value(key)
}

// none is what context.Background is, for a library that makes no contexts for its callers.
type none struct{}

func (none) Deadline() (time.Time, bool) { return time.Time{}, false }
func (none) Done() <-chan struct{}       { return nil }
func (none) Err() error                  { return nil }
func (none) Value(any) any               { return nil }
