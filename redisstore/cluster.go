package redisstore

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/picket-go/picket/internal/bound"
)

const (
	mapPause    = 100 * time.Millisecond // between two requests for a new map of the Cluster, at least
	mostSurveys = 8                      // at once
)

// cluster knows the nodes of a Cluster. Which of them has a key is for go-redis to know; but its map may be a minute old (go-redis#3979), so the Store follows redirections
// itself, asks for a new map with each, and asks around what a node that is silent would not tell.
type cluster struct {
	store  *Store
	client *redis.ClusterClient
	fixed  bool        // the map is the caller's (ClusterSlots): its servers may know nothing of each other, and would serve what is not theirs
	drawn  atomic.Bool // there is a map, so that go-redis answers at once
	first  chan signal // closed when there is one

	mu      sync.Mutex
	nodes   map[string]*node // by address
	guests  map[string]*node // by address; those that go-redis has no client for yet
	survey  *survey          // the last one that was begun
	surveys int              // under way
	stale   time.Time        // when a new map was last asked for
}

// survey is one look at the masters.
type survey struct {
	began time.Time
	done  chan signal
	err   error
}

func newCluster(s *Store, client *redis.ClusterClient) *cluster {
	return &cluster{store: s, client: client, fixed: client.Options().ClusterSlots != nil, first: make(chan signal), nodes: map[string]*node{}, guests: map[string]*node{}}
}

// at is the node to ask for a key.
func (c *cluster) at(ctx context.Context, key string) (*node, error) {
	n, err := c.master(ctx, key)
	if err != nil {
		return nil, err
	}
	return c.guide(n), nil
}

// master is the node that has the key according to the map.
func (c *cluster) master(ctx context.Context, key string) (*node, error) {
	if !c.drawn.Load() {
		if err := c.draw(ctx); err != nil {
			return nil, err
		}
	}
	client, err := c.client.MasterForKey(ctx, key)
	if err != nil {
		return nil, unroutedError{err}
	}
	n, err := c.node(client)
	if err == nil {
		n.promote()
	}
	return n, err
}

// node is the one behind client, which is go-redis' for it.
func (c *cluster) node(client *redis.Client) (*node, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	addr := client.Options().Addr
	if n := c.nodes[addr]; n != nil && n.shared == client {
		return n, nil
	}
	n, err := newNode(c.store, client)
	if err == nil {
		n.replica.Store(c.drawn.Load()) // it was no master so far
		c.nodes[addr] = n
	}
	return n, err
}

// guide is whom to ask for the keys of m: itself, but if it is silent another one, which will say who has them when the nodes have agreed on that.
func (c *cluster) guide(m *node) *node {
	if !m.silent.Load() || c.fixed {
		return m
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.nodes {
		if !n.silent.Load() {
			return n
		}
	}
	return m
}

// forget is for a node that go-redis has closed: it was no part of the Cluster any more.
func (c *cluster) forget(n *node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if addr := n.addr(); c.nodes[addr] == n {
		delete(c.nodes, addr)
	}
}

// next is the node that the redirection h from n names. It waits for no new map: to fetch one takes long while a node hangs.
func (c *cluster) next(ctx context.Context, n *node, h *redirect, key string) (*node, error) {
	if h.closed {
		return c.reopened(ctx, n, key)
	}
	addr := h.spelled(n)
	to := c.known(addr)
	if to == nil {
		var err error
		if to, err = c.guest(n, addr); err != nil {
			return nil, err
		}
	}
	if h.moved { // the map is old
		c.renew(ctx)
		to.promote()
	}
	return to, nil
}

// reopened is the node of key after go-redis has closed the client for n, which had left the Cluster, or with the ClusterClient.
func (c *cluster) reopened(ctx context.Context, n *node, key string) (*node, error) {
	if err := c.draw(ctx); err != nil {
		return nil, err
	}
	to, err := c.master(ctx, key)
	if err == nil && to.shared == n.shared {
		err = unroutedError{redis.ErrClosed}
	}
	return to, err
}

// known is the node with the address, as go-redis or as the nodes spell it.
func (c *cluster) known(addr string) *node {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.nodes[addr]; n != nil {
		return n
	}
	for _, n := range c.nodes {
		if n.client.Options().NodeAddress == addr {
			return n
		}
	}
	return nil
}

// guest is a node that the map does not name: it is being given its first slot, or was promoted just now. The Store has a client of its own for it, made as the neighbour's is.
func (c *cluster) guest(neighbour *node, addr string) (*node, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.guests[addr]; n != nil {
		return n, nil
	}
	if c.store.crew.over.Load() {
		return nil, errClosed
	}
	o := *neighbour.client.Options()
	o.Addr, o.NodeAddress, o.MaxRetries = addr, "", -1                         // 0 would become 3
	o.MaintNotificationsConfig, o.PushNotificationProcessor = unnoticed(), nil // the neighbour's are for its own connections
	client := c.client.Options().NewClient(&o)
	n, err := newNode(c.store, client)
	if err != nil {
		_ = client.Close() // it has no connection
		return nil, err
	}
	n.replica.Store(true) // it was no master so far
	c.guests[addr] = n
	return n, nil
}

// close closes the clients that are the Store's own, if it is on a Cluster.
func (c *cluster) close() (err error) {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for addr, n := range c.guests {
		err = errors.Join(err, n.shared.Close())
		delete(c.guests, addr)
	}
	return err
}

// renew has go-redis fetch a new map, soon.
func (c *cluster) renew(ctx context.Context) {
	c.mu.Lock()
	now := time.Now()
	due := now.Sub(c.stale) >= mapPause
	if due {
		c.stale = now
	}
	c.mu.Unlock()
	if due {
		c.client.ReloadState(ctx)
	}
}

// draw waits for a survey that begins now, or began a moment ago. go-redis asks one node after the other, in an order of chance, and one that hangs takes its whole read timeout:
// so a survey that takes long does not stop others, and the first map is that of the first one that succeeds.
func (c *cluster) draw(ctx context.Context) error {
	first := c.first
	if c.drawn.Load() {
		first = nil
	}
	s, err := c.begin()
	if err != nil {
		return err
	}
	call := bound.New(ctx, callBound)
	defer call.Stop()
	for {
		select {
		case <-s.done:
			return s.err
		case <-first:
			return nil
		case <-call.Done():
			return unroutedError{call.Err()}
		case <-time.After(mapPause):
			if _, err := c.begin(); err != nil {
				return err
			}
		}
	}
}

// begin returns the survey to wait for.
func (c *cluster) begin() (*survey, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.survey != nil && (time.Since(c.survey.began) < mapPause || c.surveys == mostSurveys) {
		return c.survey, nil
	}
	s := &survey{began: time.Now(), done: make(chan signal)}
	err := c.store.crew.run(func() {
		s.err = c.look()
		close(s.done)
	})
	if err != nil {
		return nil, err
	}
	c.survey = s
	c.surveys++
	return s, nil
}

// look finds the masters, and forgets who is none any more.
func (c *cluster) look() error {
	ctx := bound.New(bound.None(), callBound)
	defer ctx.Stop()
	var mu sync.Mutex
	found := map[*node]bool{}
	err := c.client.ForEachMaster(ctx, func(_ context.Context, client *redis.Client) error {
		n, err := c.node(client)
		mu.Lock()
		defer mu.Unlock()
		found[n] = true
		return err
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.surveys--
	if err != nil {
		return unroutedError{err}
	}
	for addr, n := range c.nodes {
		if found[n] {
			n.promote()
		} else {
			delete(c.nodes, addr)
		}
	}
	if c.drawn.CompareAndSwap(false, true) {
		close(c.first)
	}
	return nil
}

// masters are the nodes that have slots.
func (c *cluster) masters(ctx context.Context) ([]*node, error) {
	if err := c.draw(ctx); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Values(c.nodes)), nil
}

// unroutedError is the error of a call for which no node was found, or none that could say where the lock is: nothing was executed.
type unroutedError struct{ error }

func (e unroutedError) Unwrap() error { return e.error }
