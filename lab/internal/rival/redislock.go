package rival

import (
	"context"
	"fmt"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
)

// redislockDelay: of 2 to 100 ms, the README's, and its exponential strategy, this one does the most work with the fewest long waits.
const redislockDelay = 10 * time.Millisecond

func redislockRival() Rival {
	return Rival{
		Name:     "redislock",
		Settings: fmt.Sprintf("bsm/redislock v0.10.0, LinearBackoff(%s), no token, go-redis pool of %d for each server", redislockDelay, pool),
		Waits:    true,
		Open: func(addrs []string) (Client, error) {
			client := dial(addrs, nil)
			return &redislockClient{redislock.New(client), client}, nil
		},
	}
}

type redislockClient struct {
	locks  *redislock.Client
	client redis.UniversalClient
}

func (c *redislockClient) Do(ctx context.Context, key string, fn func()) error {
	lock, err := c.locks.Obtain(ctx, key, TTL, &redislock.Options{RetryStrategy: redislock.LinearBackoff(redislockDelay)})
	if err != nil {
		return err
	}
	fn()
	return lock.Release(ctx)
}

func (c *redislockClient) Close() error { return c.client.Close() }
