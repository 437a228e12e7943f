package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/picket-go/picket"
)

// mostRedirects is how often one call is redirected. Each time is one change of the Cluster that its nodes do not agree on yet.
const mostRedirects = 5

// redirect is the answer of a node that has not got the key: another one has, or the slot is on its way there. Nothing was executed.
type redirect struct {
	moved bool
	addr  string // "" if the node does not say
	text  string

	closed bool // go-redis has closed the node's client, as it does when a node has left
}

// spelled is the address as clients write it. n, whose answer it is, may leave out its own host, and may call it a loopback address that is none for us.
func (h *redirect) spelled(n *node) string {
	i := strings.LastIndexByte(h.addr, ':')
	if i < 0 {
		return h.addr
	}
	host := strings.Trim(h.addr[:i], "[]")
	if own, _, _ := net.SplitHostPort(n.addr()); host == "" || loopback(host) && !loopback(own) {
		host = own
	}
	return net.JoinHostPort(host, h.addr[i+1:])
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Error is what the node said.
func (h *redirect) Error() string { return h.text }

// redirectOf reports whether err is a redirection.
func redirectOf(err error) (*redirect, bool) {
	if addr, ok := redis.IsMovedError(err); ok {
		return &redirect{moved: true, addr: addr, text: err.Error()}, true
	}
	if addr, ok := redis.IsAskError(err); ok {
		return &redirect{addr: addr, text: err.Error()}, true
	}
	if redis.IsTryAgainError(err) {
		return &redirect{text: err.Error()}, true
	}
	return nil, false
}

// chase does what f does at the node of key: at the next one while it is redirected, and what moving does while the slot is being moved from there.
func (c *cluster) chase(ctx context.Context, key string, f, moving func(*node) error) error {
	n, err := c.at(ctx, key)
	for range mostRedirects {
		if err != nil {
			return err
		}
		err = f(n)
		h, ok := errors.AsType[*redirect](err)
		if ok && !h.moved {
			err = moving(n)
			h, ok = errors.AsType[*redirect](err)
		}
		if !ok {
			return err
		}
		n, err = c.next(ctx, n, h, key)
	}
	return &serverError{
		sentinel: picket.ErrUnavailable, advice: fmt.Sprintf("the call was sent from node to node %d times: the Cluster is being changed, try again", mostRedirects), unsent: true,
	}
}

// ask takes e to the server of its key.
func (s *Store) ask(ctx context.Context, e *entry, way func(*node) *lane) (answer, error) {
	e.cut()
	if s.cluster == nil {
		return way(s.home).ask(ctx, e)
	}
	about := e.subject
	var a answer
	err := s.cluster.chase(ctx, string(e.words[0]), func(n *node) (err error) {
		e.again()
		a, err = way(n).ask(ctx, e)
		return err
	}, func(n *node) (err error) {
		a, err = s.migrate(ctx, n, e)
		return err
	})
	if err != nil {
		return answer{}, s.failed(ctx, about, err)
	}
	return a, nil
}

// follow runs the script of r, which is about one lock, where its key is.
func (s *Store) follow(ctx context.Context, r request) (raw []any, err error) {
	if s.cluster == nil {
		o := s.home.deliver(ctx, s.home.client, []request{r}, false)[0]
		return o.raw, o.err
	}
	err = s.cluster.chase(ctx, r.record(), func(n *node) error {
		o := n.deliver(ctx, n.client, []request{r}, false)[0]
		raw = o.raw
		return o.err
	}, func(n *node) (err error) {
		m := &migration{from: n, r: r}
		raw, err = m.run(ctx, m.try)
		return err
	})
	return raw, err
}

// deliver is exec at this node. On a Cluster it learns from the answers whether the node is there, and whether the map is right; redirections come as *redirect.
func (n *node) deliver(ctx context.Context, via sender, rs []request, asking bool) []outcome {
	out := exec(ctx, via, rs, asking)
	for i := range out {
		if n.store.cluster == nil {
			out[i].err = n.begun(out[i].err)
		} else {
			out[i].err = n.heed(ctx, out[i].err)
		}
	}
	return out
}

// heed notes what the outcome of a call says of the node and the map.
func (n *node) heed(ctx context.Context, err error) error {
	reply, answered := errors.AsType[redis.Error](err)
	switch {
	case err == nil:
		n.silent.Store(false)
		return nil
	case answered && reply != redis.Nil:
		n.silent.Store(false)
		if h, ok := redirectOf(err); ok {
			return h
		}
		if redis.IsReadOnlyError(err) || redis.IsClusterDownError(err) || redis.IsMasterDownError(err) || redis.IsLoadingError(err) {
			n.store.cluster.renew(ctx)
		}
		return err
	}
	if errors.Is(err, redis.ErrClosed) {
		n.store.cluster.forget(n)
		return &redirect{moved: true, addr: n.addr(), text: err.Error(), closed: true}
	}
	err = n.begun(err)
	if _, idle := errors.AsType[idleError](err); !idle {
		n.silent.Store(true)
		n.store.cluster.renew(ctx)
	}
	return err
}
