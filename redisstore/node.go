package redisstore

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/picket-go/picket"
)

// node is one server as the Store uses it: the only one, or one of a Cluster.
type node struct {
	store    *Store
	shared   *redis.Client // the caller's
	client   *redis.Client // the same pool, but no call takes longer than callBound, or than its ctx has a deadline for
	patient  *redis.Client // for calls that wait for replicas
	renewing chan signal   // for calls that renew
	origin   origin

	silent   atomic.Bool  // on a Cluster: it did not answer the last time
	replica  atomic.Bool  // on a Cluster: it was one
	promoted atomic.Int64 // when it was found to be none any more, in nanoseconds since 1970

	lanes    [2]lane
	grants   *lane // of claims that want a lock
	releases *lane // the same one, unless a grant has to wait for replicas
}

// newNode is for a server that c talks to, and for nothing else.
func newNode(s *Store, c *redis.Client) (*node, error) {
	o := c.Options()
	if err := bounds(o.ReadTimeout, o.WriteTimeout); err != nil {
		return nil, err
	}
	n := &node{store: s, shared: c, client: bounded(c, min(callBound, o.ReadTimeout)), patient: bounded(c, s.patience())}
	if n.patient != c { // connections of one client share its options without a lock, and write to them when the server refuses these (go-redis 9.23)
		n.patient.Options().MaintNotificationsConfig = unnoticed()
	}
	size := max(o.PoolSize, 1)
	n.renewing = make(chan signal, max(1, min(renewFlying, size/2)))
	n.releases = n.open(&n.lanes[0], size)
	n.grants = n.releases
	if s.durable() {
		n.grants = n.open(&n.lanes[1], size)
		n.grants.carry, n.grants.limit = n.carryDurably, s.patience()
	}
	return n, nil
}

// unnoticed is for connections that do not ask for the notices of maintenance that a managed Redis sends.
func unnoticed() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}

// bounds refuses the time limits of a client that waits without bound. The client has turned 0 into its default, and -1 into 0.
func bounds(read, write time.Duration) error {
	if read <= 0 || write <= 0 {
		return fmt.Errorf("%w: the client waits without bound: set ReadTimeout and WriteTimeout, or leave them at their default", picket.ErrInvalid)
	}
	return nil
}

// bounded returns a client on c's pool whose calls end at the deadline of their ctx, and after d at the latest without one. By default go-redis heeds no ctx on the
// socket, and a client that was made to has no hooks. So a client of the caller's that heeds it, and waits for long enough, is taken as it is.
func bounded(c *redis.Client, d time.Duration) *redis.Client {
	if o := c.Options(); o.ContextTimeoutEnabled && o.ReadTimeout >= d && o.WriteTimeout >= d {
		return c
	}
	b := c.WithTimeout(d)
	o := b.Options() // WithTimeout gave it its own
	o.ContextTimeoutEnabled = true
	o.MaxRetries = 0 // nothing may be sent twice; HELLO would be, on a connection that the server has closed
	b.AddHook(admission{})
	return b
}

// open makes a lane of at most size calls.
func (n *node) open(l *lane, size int) *lane {
	l.node, l.carry, l.limit, l.most = n, n.carry, callBound, size
	l.claims, l.flying = laneClaims, min(laneFlying, size)
	if n.store.set.apart {
		l.claims, l.flying = 1, size
	}
	return l
}

// addr is where go-redis finds it.
func (n *node) addr() string { return n.client.Options().Addr }

// granting is where claims go that want a lock.
func (n *node) granting() *lane { return n.grants }

// releasing is where claims go that give a lock back.
func (n *node) releasing() *lane { return n.releases }

// carry sends what es ask for and gives each its outcome. It uses args for the arguments, and returns them to be used again.
func (n *node) carry(ctx context.Context, es []*entry, args []any) []any {
	return n.submit(ctx, n.client, es, args)
}

// submit is carry over the connection, or those of the client, that via is. On a Cluster a script must stay in one slot: there each claim has a command of its own.
func (n *node) submit(ctx context.Context, via sender, es []*entry, args []any) []any {
	if n.store.cluster == nil {
		args = arguments(es, args)
		raw, err := eval(ctx, via, claimRequest(es, args))
		if len(es) == 1 || !forbidden(err) {
			share(es, raw, n.begun(err))
			return args
		}
		for i := range es { // nothing was executed for any of them
			one := es[i : i+1]
			raw, err := eval(ctx, via, claimRequest(one, arguments(one, es[i].args[:])))
			share(one, raw, n.begun(err))
		}
		return args
	}
	rs := make([]request, len(es))
	for i := range es {
		rs[i] = claimRequest(es[i:i+1], arguments(es[i:i+1], es[i].args[:]))
	}
	for i, o := range n.deliver(ctx, via, rs, false) {
		share(es[i:i+1], o.raw, o.err)
	}
	return args
}

func claimRequest(es []*entry, args []any) request {
	return request{subject: es[0].subject, script: claimScript, keys: len(es) * es[0].keys, claims: len(es), args: args}
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
