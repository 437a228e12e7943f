package redisstore

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/picket-go/picket"
)

// callBound is how long one call to the server may take. A ctx may end it earlier.
const callBound = time.Second

// Store keeps leases on a Redis server. Make it with New and end it with Close; its methods are safe for concurrent use.
type Store struct {
	set      settings
	shared   redis.UniversalClient // the caller's
	client   redis.UniversalClient // the same pool, but no call takes longer than callBound; obeys deadlines if single is set
	single   *redis.Client         // client, unless the caller's is of a kind that cannot be bounded
	patient  *redis.Client         // for calls that wait for replicas
	process  string                // names this Store to those who publish for its waiters
	slots    chan signal           // for calls on the crew's goroutines that travel outside a lane
	renewing chan signal           // for calls that renew
	crew     crew
	listen   listener
	origin   origin

	entries  entryPool
	lanes    [2]lane
	grants   *lane // of claims that want a lock
	releases *lane // the same one, unless a grant has to wait for replicas
}

var _ interface {
	picket.Store
	picket.Waker
	picket.Transferer
	picket.Lister
	picket.Breaker
	picket.Reissuer
} = (*Store)(nil)

// New returns a Store on the caller's client, which stays the caller's to close. It sends nothing.
//
// It returns ErrInvalid for a client that is nil or waits without bound (ReadTimeout -1), and for options that make no sense; ErrUnsupported for a Cluster or Ring client.
func New(client redis.UniversalClient, opts ...Option) (*Store, error) {
	s := &Store{set: settings{prefix: "lock:"}, shared: client, client: client, process: rand.Text()}
	for i, opt := range opts {
		if opt == nil {
			s.set.refuse("option %d is nil", i+1)
			continue
		}
		opt(&s.set)
	}
	if err := s.adopt(client); err != nil {
		return nil, fmt.Errorf("redisstore: %w", err)
	}
	if s.set.err != nil {
		return nil, fmt.Errorf("redisstore: %w", s.set.err)
	}
	s.listen.start(s)
	return s, nil
}

// adopt looks at what kind of client it is.
func (s *Store) adopt(client redis.UniversalClient) error {
	size := 64
	switch c := client.(type) {
	case nil:
		return fmt.Errorf("%w: the client is nil", picket.ErrInvalid)
	case *redis.ClusterClient:
		return fmt.Errorf("%w: Cluster is not supported yet: use a client of one server or of Sentinel", picket.ErrUnsupported)
	case *redis.Ring:
		return fmt.Errorf("%w: a Ring moves keys between servers that know nothing of each other: use a client of one server or of Sentinel", picket.ErrUnsupported)
	case *redis.Client:
		if c == nil {
			return fmt.Errorf("%w: the client is nil", picket.ErrInvalid)
		}
		o := c.Options()
		if o.ReadTimeout <= 0 || o.WriteTimeout <= 0 { // the client has turned 0 into its default, and -1 into 0
			return fmt.Errorf("%w: the client waits without bound: set ReadTimeout and WriteTimeout, or leave them at their default", picket.ErrInvalid)
		}
		size = max(o.PoolSize, 1)
		s.single = bounded(c, min(callBound, o.ReadTimeout))
		s.patient = bounded(c, s.patience())
		s.client = s.single
	default:
		if s.set.replicas.count > 0 || s.set.local > 0 {
			return fmt.Errorf("%w: WithReplicas and WithAOF need a *redis.Client, not %T: WAIT must travel on the grant's own connection", picket.ErrUnsupported, client)
		}
	}
	s.slots = make(chan signal, size)
	s.renewing = make(chan signal, max(1, min(renewFlying, size/2)))
	s.releases = s.open(&s.lanes[0], size)
	s.grants = s.releases
	if s.durable() {
		s.grants = s.open(&s.lanes[1], size)
		s.grants.carry, s.grants.limit = s.carryDurably, s.patience()
	}
	return nil
}

// open makes a lane of at most size calls.
func (s *Store) open(l *lane, size int) *lane {
	l.store, l.carry, l.limit, l.most = s, s.carry, callBound, size
	l.claims, l.flying = laneClaims, min(laneFlying, size)
	if s.set.apart {
		l.claims, l.flying = 1, size
	}
	return l
}

// carry sends what es ask for in one call and gives each its outcome.
func (s *Store) carry(ctx context.Context, r request, es []*entry) {
	raw, err := eval(ctx, s.client, r)
	share(es, raw, s.begun(err))
}

// share gives each of es its answer, or the error of the whole call.
func share(es []*entry, raw []any, err error) {
	for i, e := range es {
		switch {
		case err != nil:
			e.err = err
		case len(raw) != len(es):
			e.err = e.garbled(raw)
		default:
			e.answer, e.err = e.read(raw, i)
		}
	}
}

// bounded returns a client on c's pool whose calls end at the deadline of their ctx, and after d at the latest without one. By default go-redis heeds no ctx on the
// socket, and a client that was made to has no hooks. So a client of the caller's that heeds it, and waits for long enough, is taken as it is.
func bounded(c *redis.Client, d time.Duration) *redis.Client {
	if o := c.Options(); o.ContextTimeoutEnabled && o.ReadTimeout >= d && o.WriteTimeout >= d {
		return c
	}
	b := c.WithTimeout(d)
	b.Options().ContextTimeoutEnabled = true // WithTimeout gave it options of its own
	return b
}

// Close ends the subscription and waits for calls that their callers have left, which takes about a second at most. It returns ctx's error if ctx ends first. Calls after
// it fail with picket.ErrClosed. Shut the Lockers down first; leases that are still held end with their TTL. The client stays open.
func (s *Store) Close(ctx context.Context) error {
	s.crew.dismiss()
	s.listen.close()
	done := make(chan signal)
	go func() {
		s.crew.work.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("redisstore: close: calls are still under way: %w", ctx.Err())
	}
}
