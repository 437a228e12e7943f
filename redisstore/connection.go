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
	writeBound = 5 * time.Second
	joinAtOnce = 500 // channels in one SUBSCRIBE
)

var errIdle = errors.New("nobody listens")

// connection is one subscription connection, from its opening to its loss. Two goroutines use it: serve writes, receive reads. go-redis' own receive loop is not used: it
// never notices a connection that has gone silent.
type connection struct {
	l      *listener
	pubsub *redis.PubSub
}

func newConnection(l *listener) *connection {
	ctx := bound.New(l.ctx, writeBound)
	defer ctx.Stop()
	return &connection{l: l, pubsub: l.store.shared.Subscribe(ctx)} // no channels yet: sends nothing
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
		join, part, done := c.l.changes(time.Now())
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
		case <-c.l.kick:
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

// update tells the server what to send us.
func (c *connection) update(join, part []string) error {
	ctx := bound.New(c.l.ctx, writeBound)
	defer ctx.Stop()
	for names := range slices.Chunk(join, joinAtOnce) {
		if err := c.pubsub.Subscribe(ctx, names...); err != nil {
			if _, answered := errors.AsType[redis.Error](err); answered {
				c.l.refuse(err)
			}
			return err
		}
	}
	if len(part) == 0 {
		return nil
	}
	return c.pubsub.Unsubscribe(ctx, part...)
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
			c.l.refuse(err)
			continue
		}
		if err != nil {
			return err
		}
		switch m := got.(type) {
		case *redis.Subscription:
			if m.Kind == "subscribe" {
				c.l.confirm(m.Channel)
			}
		case *redis.Message:
			c.l.deliver(m.Payload)
		}
	}
}
