package redisstore

import (
	"context"
	"net"
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
	drawn   atomic.Bool // there is a map, so that go-redis answers at once

	mu     sync.Mutex
	nodes  map[string]*node // by address
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
	return &atlas{store: s, cluster: c, nodes: map[string]*node{}}
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
	if !m.silent.Load() {
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
	addr := h.addr
	if host, port, err := net.SplitHostPort(addr); err == nil && host == "" { // the node does not know its own address
		own, _, _ := net.SplitHostPort(n.addr())
		addr = net.JoinHostPort(own, port)
	}
	known := a.known(addr)
	if known == nil {
		if err := a.draw(ctx); err != nil {
			return nil, err
		}
		known = a.known(addr)
	}
	if known != nil {
		known.promote()
		return known, nil
	}
	return a.master(ctx, key) // which may go by another address, from where we are
}

func (a *atlas) known(addr string) *node {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.nodes[addr]
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
		return unsentError{ctx.Err()}
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
			return s, nil
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
