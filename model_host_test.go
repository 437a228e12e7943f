package picket_test

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/picket-go/picket"
	"github.com/picket-go/picket/memstore"
)

// fullStore is a store with all that the model can take away.
type fullStore interface {
	picket.Store
	picket.Waker
	picket.Transferer
}

// host is what lies behind the network of a run.
type host interface {
	// connect returns the store as the process sees it.
	connect(p *process) fullStore
	// status and deaf look at a key without a trace. Deaf are waiters that have announced that they listen, and do not. The ledger's mutex is held.
	status(key string) picket.Status
	deaf(key string) map[string]bool
	// now is the server's time.
	now() time.Time
	// remote says that the host enters by itself what it does; else the wire does it.
	remote() bool
	// change follows the weather.
	change(weather)
	// step sets the server's clock back.
	step(time.Duration)
	// warm is called in calm weather, before anything is timed.
	warm()
	// kill ends a process for its server: without a word, or as a process that is ended hangs up.
	kill(p *process, hangUp bool)
	// close ends the stores, when nothing is under way any more.
	close()
}

// memory is one memstore, which all processes share.
type memory struct {
	*memstore.Store
	g    *ledger
	ears map[string]*ear // by claim id
}

// ear is the listening of a claim.
type ear struct {
	watches   int
	listens   bool
	announced bool // it listened when it last polled
}

func newMemory(w *world) host { return &memory{memstore.New(), w.ledger, map[string]*ear{}} }

// ear is called with the ledger's mutex held.
func (m *memory) ear(id string) *ear {
	if m.ears[id] == nil {
		m.ears[id] = &ear{}
	}
	return m.ears[id]
}

// Acquire and Transfer note whether a waiter listens.
func (m *memory) Acquire(ctx context.Context, c picket.Claim) (picket.Grant, error) {
	grant, err := m.Store.Acquire(ctx, c)
	m.polled(c, err)
	return grant, err
}

func (m *memory) Transfer(ctx context.Context, from, to picket.Claim) (picket.Grant, error) {
	grant, err := m.Store.Transfer(ctx, from, to)
	m.polled(to, err)
	return grant, err
}

func (m *memory) polled(c picket.Claim, err error) {
	if e := m.ear(c.ID); c.Queue && errors.Is(err, picket.ErrBusy) {
		e.announced = e.listens
	}
}

func (m *memory) Watch(ctx context.Context, c picket.Claim) (<-chan struct{}, func(), error) {
	m.g.mu.Lock()
	defer m.g.mu.Unlock()
	wake, stop, err := m.Store.Watch(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	e := m.ear(c.ID)
	m.g.log("  server: %s listens", m.g.name(c.ID))
	e.watches++
	this := e.watches
	e.listens = true
	if st := m.status(c.Key); m.g.waits(c.Key, c.ID) && (st.State != picket.StatusHeld || st.Holder.ID != c.ID) {
		e.announced = true
	}
	return wake, func() {
		m.g.mu.Lock()
		defer m.g.mu.Unlock()
		stop()
		m.g.log("  server: %s hangs up", m.g.name(c.ID))
		e.listens = e.listens && e.watches != this
	}, nil
}

func (m *memory) connect(*process) fullStore { return m }
func (m *memory) now() time.Time             { return time.Now() }
func (m *memory) remote() bool               { return false }
func (m *memory) change(weather)             {}
func (m *memory) step(time.Duration)         {} // its clock is monotonic
func (m *memory) warm()                      {}
func (m *memory) close()                     {}

func (m *memory) status(key string) picket.Status {
	st, err := m.Inspect(m.g.t.Context(), key)
	if err != nil {
		m.g.t.Errorf("inspect %q: %v", key, err)
	}
	return st
}

func (m *memory) deaf(key string) map[string]bool {
	deaf := map[string]bool{}
	if q := m.g.queues[key]; q != nil {
		for _, w := range q.line {
			if e := m.ear(w.id); e.announced && !e.listens {
				deaf[w.id] = true
			}
		}
	}
	return deaf
}

func (m *memory) kill(p *process, hangUp bool) {
	if hangUp {
		close(p.hungUp)
	}
}

// process is one life of a Locker.
type process struct {
	name    string
	locker  *picket.Locker
	wire    *wire
	store   fullStore
	aborted atomic.Bool   // its Shutdown lost patience, or it was killed
	below   bool          // the network fails below its store too
	dead    atomic.Bool   // nothing that it sends arrives any more
	hungUp  chan struct{} // closed when its death was told to the server
}

// kill ends p: the server hears no more of it, except that it hangs up if the death is noticed.
func (s *seat) kill(p *process, hangUp bool) {
	s.w.log("%s is killed; the server notices: %t", p.name, hangUp)
	p.aborted.Store(true)
	p.dead.Store(true)
	s.w.host.kill(p, hangUp)
	s.w.count(func(t *tally) { t.killed++ })
	s.stop(p, 100*time.Millisecond)
}
