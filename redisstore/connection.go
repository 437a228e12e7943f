package redisstore

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/picket-go/picket/internal/bound"
)

const (
	lookEvery  = time.Second     // at what there is to listen to
	pingEvery  = 3 * time.Second // more often, and the pings of many waiters would be more than their polls
	silence    = 5 * time.Second // a connection that has not even answered pings for so long is dead, whatever TCP says
	writeBound = callBound       // also of the handshake, which Close waits for
	joinAtOnce = 500             // channels in one SUBSCRIBE
)

var errIdle = errors.New("nobody listens")

// connection is one subscription connection, from its opening to its loss. Two goroutines use it: serve writes, receive reads. go-redis' own receive loop is not used: it
// never notices a connection that has gone silent.
type connection struct {
	owner  *subscriber
	l      *listener
	pubsub *redis.PubSub
}

func newConnection(s *subscriber) *connection {
	ctx := bound.New(s.l.ctx, writeBound)
	defer ctx.Stop()
	return &connection{owner: s, l: s.l, pubsub: s.node.client.Subscribe(ctx)} // no channels yet: sends nothing
}

// serve subscribes what is asked for and pings, until the connection fails, nobody listens any more, or the Store is closed.
func (c *connection) serve() error {
	var reader sync.WaitGroup
	defer reader.Wait()
	defer c.pubsub.Close() //nolint:errcheck // ends the reader
	failed := make(chan error, 1)
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	started, pinged := false, time.Now()
	for {
		c.owner.find()
		join, part, done := c.owner.changes(time.Now())
		if done {
			return errIdle
		}
		if err := c.update(join, part); err != nil {
			return err
		}
		if !started && len(join) > 0 {
			started = true
			reader.Go(func() { failed <- c.receive() })
		}
		select {
		case <-c.owner.kick:
		case now := <-tick.C:
			if now.Sub(pinged) < pingEvery-lookEvery/2 {
				continue
			}
			pinged = now
			if err := c.ping(started); err != nil {
				return err
			}
		case err := <-failed:
			return err
		case <-c.l.ctx.Done():
			return c.l.ctx.Err()
		}
	}
}

// update tells the server what to send us. A command must not name shard channels of two slots, so each of these has its own.
func (c *connection) update(join, part []*channel) error {
	ctx := bound.New(c.l.ctx, writeBound)
	defer ctx.Stop()
	shards, names := apart(join)
	for _, name := range shards {
		if err := c.subscribed(c.pubsub.SSubscribe(ctx, name)); err != nil {
			return err
		}
	}
	for some := range slices.Chunk(names, joinAtOnce) {
		if err := c.subscribed(c.pubsub.Subscribe(ctx, some...)); err != nil {
			return err
		}
	}
	shards, names = apart(part)
	for _, name := range shards {
		if err := c.pubsub.SUnsubscribe(ctx, name); err != nil {
			return err
		}
	}
	if len(names) == 0 {
		return nil
	}
	return c.pubsub.Unsubscribe(ctx, names...)
}

// apart returns the names of the shard channels among all, and those of the others.
func apart(all []*channel) (shards, names []string) {
	for _, ch := range all {
		if ch.sharded {
			shards = append(shards, ch.name)
		} else {
			names = append(names, ch.name)
		}
	}
	return shards, names
}

// subscribed looks at the error of a subscription that was sent: the answer comes later, but the connection may have been refused.
func (c *connection) subscribed(err error) error {
	if _, answered := errors.AsType[redis.Error](err); answered || errors.Is(err, redis.ErrClosed) {
		c.owner.answered(err)
	}
	return err
}

func (c *connection) ping(started bool) error {
	if !started {
		return nil
	}
	ctx := bound.New(c.l.ctx, writeBound)
	defer ctx.Stop()
	return c.pubsub.Ping(ctx)
}

// receive reads until the connection fails or is silent.
func (c *connection) receive() error {
	for {
		ctx := bound.New(c.l.ctx, silence+time.Second)
		got, err := c.pubsub.ReceiveTimeout(ctx, silence)
		ctx.Stop()
		if _, answered := errors.AsType[redis.Error](err); answered {
			c.owner.answered(err)
			continue
		}
		if err != nil {
			return err
		}
		switch m := got.(type) {
		case *redis.Subscription:
			switch m.Kind {
			case "subscribe", "ssubscribe":
				c.owner.confirm(m.Channel)
			case "sunsubscribe":
				c.owner.dropped(m.Channel)
			}
		case *redis.Message:
			c.l.deliver(m.Payload)
		}
	}
}
