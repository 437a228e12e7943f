package redisstore

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/picket-go/picket/internal/bound"
)

// mapPause is the least time between two requests for a new map of the Cluster.
const mapPause = 100 * time.Millisecond

// atlas knows the nodes of a Cluster. Which of them has a key is for go-redis to know; but its map may be a minute old (go-redis#3979), so the Store follows redirections
// itself, asks for a new map with each, and asks around what a node that is silent would not tell.
type atlas struct {
	store   *Store
	cluster *redis.ClusterClient
	fixed   bool        // the map is the caller's (ClusterSlots): its servers may know nothing of each other, and would serve what is not theirs
	drawn   atomic.Bool // there is a map, so that go-redis answers at once

	mu     sync.Mutex
	nodes  map[string]*node // by address
	guests map[string]*node // by address; those that go-redis has no client for, because they have no slot yet
	survey *survey          // the one under way, or the last
	stale  time.Time        // when a new map was last asked for
}

// survey is one look at all nodes.
type survey struct {
	began time.Time
	done  chan signal
	err   error
}

func newAtlas(s *Store, c *redis.ClusterClient) *atlas {
	return &atlas{store: s, cluster: c, fixed: c.Options().ClusterSlots != nil, nodes: map[string]*node{}, guests: map[string]*node{}}
}

// at is the node to ask for a key.
func (a *atlas) at(ctx context.Context, key string) (*node, error) {
	n, err := a.master(ctx, key)
	if err != nil {
		return nil, err
	}
	return a.guide(n), nil
}

// master is the node that has the key according to the map.
func (a *atlas) master(ctx context.Context, key string) (*node, error) {
	if !a.drawn.Load() {
		if err := a.draw(ctx); err != nil {
			return nil, err
		}
	}
	c, err := a.cluster.MasterForKey(ctx, key)
	if err != nil {
		return nil, unroutedError{err}
	}
	n, err := a.node(c)
	if err == nil {
		n.promote()
	}
	return n, err
}

// node is the one behind c, which is go-redis' client for it.
func (a *atlas) node(c *redis.Client) (*node, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	addr := c.Options().Addr
	if n := a.nodes[addr]; n != nil && n.shared == c {
		return n, nil
	}
	n, err := newNode(a.store, c)
	if err == nil {
		n.replica.Store(a.drawn.Load()) // it was no master so far: CLUSTER SLOTS leaves out a replica that has just come
		a.nodes[addr] = n
	}
	return n, err
}

// guide is whom to ask for the keys of m: itself, but if it is silent another one, which will say who has them when the nodes have agreed on that.
func (a *atlas) guide(m *node) *node {
	if !m.silent.Load() || a.fixed {
		return m
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, n := range a.nodes {
		if !n.silent.Load() {
			return n
		}
	}
	return m
}

// forget is for a node that go-redis has closed: it was no part of the Cluster any more.
func (a *atlas) forget(n *node) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if addr := n.addr(); a.nodes[addr] == n {
		delete(a.nodes, addr)
	}
}

// next is the node that the redirection h from n names.
func (a *atlas) next(ctx context.Context, n *node, h *hop, key string) (*node, error) {
	if h.moved { // the map is old
		a.renew(ctx)
	}
	addr := h.spelled(n)
	known := a.known(addr)
	if known == nil {
		if err := a.draw(ctx); err != nil {
			return nil, err
		}
		known = a.known(addr)
	}
	var err error
	switch {
	case known != nil:
		known.promote()
	case h.moved:
		known, err = a.master(ctx, key)
	default:
		known, err = a.guest(n, addr)
	}
	if err == nil && h.closed && known.shared == n.shared { // go-redis has closed not a node that left, but all
		err = unroutedError{redis.ErrClosed}
	}
	return known, err
}

// known is the node with the address, as go-redis or as the nodes spell it.
func (a *atlas) known(addr string) *node {
	a.mu.Lock()
	defer a.mu.Unlock()
	if n := a.nodes[addr]; n != nil {
		return n
	}
	for _, n := range a.nodes {
		if n.single.Options().NodeAddress == addr {
			return n
		}
	}
	return nil
}

// guest is a node that is being given its first slot: until it has it, no map names it. The Store has a client of its own for it, made as the neighbour's is.
func (a *atlas) guest(neighbour *node, addr string) (*node, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if n := a.guests[addr]; n != nil {
		return n, nil
	}
	o := *neighbour.single.Options()
	o.Addr, o.NodeAddress, o.MaxRetries = addr, "", -1 // 0 would become 3
	c := a.cluster.Options().NewClient(&o)
	n, err := newNode(a.store, c)
	if err != nil {
		_ = c.Close() // it has no connection
		return nil, err
	}
	a.guests[addr] = n
	return n, nil
}

// close closes the clients that are the Store's own.
func (a *atlas) close() (err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, n := range a.guests {
		err = errors.Join(err, n.shared.Close())
	}
	return err
}

// renew has go-redis fetch a new map, soon.
func (a *atlas) renew(ctx context.Context) {
	a.mu.Lock()
	now := time.Now()
	due := now.Sub(a.stale) >= mapPause
	if due {
		a.stale = now
	}
	a.mu.Unlock()
	if due {
		a.cluster.ReloadState(ctx)
	}
}

// draw waits for a survey that begins now, or began a moment ago.
func (a *atlas) draw(ctx context.Context) error {
	s, err := a.begin()
	if err != nil {
		return err
	}
	select {
	case <-s.done:
		return s.err
	case <-ctx.Done():
		return unroutedError{ctx.Err()}
	}
}

func (a *atlas) begin() (*survey, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s := a.survey; s != nil {
		select {
		case <-s.done:
			if time.Since(s.began) < mapPause {
				return s, nil
			}
		default:
			if time.Since(s.began) < callBound { // else a node hangs that it asked first: the order is by chance
				return s, nil
			}
		}
	}
	s := &survey{began: time.Now(), done: make(chan signal)}
	err := a.store.crew.run(func() {
		defer close(s.done)
		s.err = a.look()
	})
	if err != nil {
		return nil, err
	}
	a.survey = s
	return s, nil
}

// look finds all nodes, and forgets those that are gone.
func (a *atlas) look() error {
	ctx := bound.New(bound.None(), callBound)
	defer ctx.Stop()
	var mu sync.Mutex
	found := map[*node]bool{} // whether it is a replica
	note := func(replica bool) func(context.Context, *redis.Client) error {
		return func(_ context.Context, c *redis.Client) error {
			n, err := a.node(c)
			mu.Lock()
			defer mu.Unlock()
			found[n] = replica
			return err
		}
	}
	if err := a.cluster.ForEachMaster(ctx, note(false)); err != nil {
		return unroutedError{err}
	}
	if err := a.cluster.ForEachSlave(ctx, note(true)); err != nil {
		return unroutedError{err}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for addr, n := range a.nodes {
		replica, ok := found[n]
		if !ok {
			delete(a.nodes, addr)
		}
		n.replica.Store(replica)
	}
	a.drawn.Store(true)
	return nil
}

// masters are the nodes that have slots.
func (a *atlas) masters(ctx context.Context) (all []*node, err error) {
	if err := a.draw(ctx); err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, n := range a.nodes {
		if !n.replica.Load() {
			all = append(all, n)
		}
	}
	return all, nil
}

// unroutedError is go-redis' error when it has no map: nothing was sent.
type unroutedError struct{ error }

func (e unroutedError) Unwrap() error { return e.error }
