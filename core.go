package picket

import (
	"context"
	"sync"
	"time"

	"github.com/picket-go/picket/internal/bound"
	"github.com/picket-go/picket/internal/lease"
)

// core is what all Lockers made from one New share: the store, the renewer, the lines of waiters, and the count of everything that must end at Shutdown.
type core struct {
	store   Store
	waker   Waker      // nil if the store has none
	swapper Transferer // nil if the store has none
	clock   clock
	renewer renewer

	mu      sync.Mutex
	lines   map[string]*line
	leases  map[*Lease]struct{}
	busy    int           // acquires, releases, undos and renewals under way
	closing chan struct{} // closed by Shutdown
	closed  bool
	life    context.Context // ends when Shutdown loses patience: nothing more is begun, and the calls under way end
	die     context.CancelFunc
	quiet   chan struct{} // made by Shutdown, closed when nothing is busy and no lease is held
}

func newCore(store Store) *core {
	c := &core{
		store:   store,
		lines:   map[string]*line{},
		leases:  map[*Lease]struct{}{},
		closing: make(chan struct{}),
	}
	c.waker, _ = store.(Waker)
	c.swapper, _ = store.(Transferer)
	c.clock.start(machineAsleep)
	c.life, c.die = context.WithCancel(bound.None())
	c.renewer.core = c
	return c
}

// enter counts the caller as work that Shutdown waits for; after Shutdown it says ErrClosed. Each nil is paired with leave.
func (c *core) enter() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrClosed
	}
	c.busy++
	return nil
}

// hold is enter for what the core itself begins: it goes on after Shutdown was called, until that loses patience.
func (c *core) hold() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.life.Err() != nil {
		return false
	}
	c.busy++
	return true
}

func (c *core) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy--
	c.settle()
}

// settle is called with mu held.
func (c *core) settle() {
	if c.quiet != nil && c.busy == 0 && len(c.leases) == 0 {
		close(c.quiet)
		c.quiet = nil
	}
}

// spawn runs f as work that Shutdown waits for. It reports false, and does not run f, when Shutdown has lost patience.
func (c *core) spawn(f func()) bool {
	if !c.hold() {
		return false
	}
	go func() {
		defer c.leave()
		f()
	}()
	return true
}

// bounded returns a context for a call that ends with ctx, when d is over, or when Shutdown loses patience.
func (c *core) bounded(ctx context.Context, d time.Duration) *bound.Context {
	return bound.New(ctx, d).Within(c.life)
}

// until is bounded for who has just looked at the clock.
func (c *core) until(ctx context.Context, end lease.Instant) *bound.Context {
	return bound.Until(ctx, c.clock.at(end)).Within(c.life)
}

// detached is bounded for a call that goes on whatever becomes of ctx, whose values it has.
func (c *core) detached(ctx context.Context, d time.Duration) *bound.Context {
	return bound.Detached(ctx, d).Within(c.life)
}

// adopt makes Shutdown wait for the lease. It fails if Shutdown came first.
func (c *core) adopt(l *Lease) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.leases[l] = struct{}{}
	return true
}

// forget ends what adopt began; twice is safe.
func (c *core) forget(l *Lease) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.leases, l)
	c.settle()
}

// shutdown closes the core for new work and returns the leases that are still held and a channel that closes when they are gone and nothing is busy.
func (c *core) shutdown() (held []*Lease, quiet <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.closed = true
		close(c.closing)
	}
	for l := range c.leases {
		held = append(held, l)
	}
	if c.quiet == nil {
		c.quiet = make(chan struct{})
	}
	quiet = c.quiet
	c.settle()
	return held, quiet
}

// abort ends the calls that are under way, stops renewing what is still held, and returns how many leases that leaves.
func (c *core) abort() int {
	c.renewer.stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.die()
	left := len(c.leases)
	clear(c.leases)
	c.settle()
	return left
}

// stopping reports whether Shutdown has been called.
func (c *core) stopping() bool {
	select {
	case <-c.closing:
		return true
	default:
		return false
	}
}
