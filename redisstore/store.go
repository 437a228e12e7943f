package redisstore

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/picket-go/picket"
)

const (
	// callBound is how long one call to the server may take. A ctx may end it earlier.
	callBound = time.Second
	// clusterSlots is how many calls outside the lanes go on at once on a Cluster, where each node has a pool.
	clusterSlots = 256
)

var errNoClient = fmt.Errorf("%w: the client is nil", picket.ErrInvalid)

// Store keeps leases on a Redis server or Cluster. Make it with New and end it with Close; its methods are safe for concurrent use.
type Store struct {
	set     settings
	home    *node       // the server; nil on a Cluster
	cluster *cluster    // of the Cluster; nil without
	process string      // names this Store to those who publish for its waiters
	slots   chan signal // for calls on the crew's goroutines that travel outside a lane
	crew    crew
	listen  listener
	entries entryPool
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
// It returns ErrInvalid for a client that is nil, waits without bound (ReadTimeout -1) or reads from replicas (ReadOnly), and for options that make no sense; ErrUnsupported for a Ring, and
// for types of other packages: what is behind them may be one. To see the commands, add a hook to the client instead (AddHook).
func New(client redis.UniversalClient, opts ...Option) (*Store, error) {
	s := &Store{set: settings{prefix: "lock:"}, process: rand.Text()}
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
func (s *Store) adopt(client redis.UniversalClient) (err error) {
	switch c := client.(type) {
	case nil:
		return errNoClient
	case *redis.Ring:
		return fmt.Errorf("%w: a Ring moves keys between servers that know nothing of each other: use a client of one server, of Sentinel or of a Cluster", picket.ErrUnsupported)
	case *redis.ClusterClient:
		if c == nil {
			return errNoClient
		}
		o := c.Options()
		s.cluster = newCluster(s, c)
		s.slots = make(chan signal, clusterSlots)
		if o.ReadOnly {
			return fmt.Errorf("%w: the client reads from replicas, which may not know of a lock yet: make one without ReadOnly, RouteByLatency and RouteRandomly", picket.ErrInvalid)
		}
		return bounds(o.ReadTimeout, o.WriteTimeout)
	case *redis.Client:
		if c == nil {
			return errNoClient
		}
		s.slots = make(chan signal, max(c.Options().PoolSize, 1))
		s.home, err = newNode(s, c)
		return err
	}
	return fmt.Errorf("%w: a %T does not show what it talks to: use the *redis.Client or *redis.ClusterClient itself, and AddHook to see its commands", picket.ErrUnsupported, client)
}

// Close ends the subscription and waits for calls that their callers have left, which takes about a second at most; or the client's ReadTimeout, if a node of a Cluster hangs
// that go-redis has asked for its map. It returns ctx's error if ctx ends first. Calls after it fail with picket.ErrClosed. Shut the Lockers down first; leases that are still
// held end with their TTL. The client stays open.
func (s *Store) Close(ctx context.Context) error {
	s.crew.dismiss()
	s.listen.close()
	done := make(chan error, 1)
	go func() {
		s.crew.work.Wait()
		done <- s.cluster.close()
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("redisstore: close: calls are still under way: %w", ctx.Err())
	}
}
