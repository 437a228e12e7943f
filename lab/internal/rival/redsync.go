package rival

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

// Its own delay of 50 to 250 ms does no more work and lets workers wait three times as long. WithFailFast makes no difference with one server.
const minDelay, maxDelay = 10 * time.Millisecond, 30 * time.Millisecond

func delay(int) time.Duration { return minDelay + rand.N(maxDelay-minDelay) }

func redsyncRival() Rival {
	return Rival{
		Name:     "redsync",
		Settings: fmt.Sprintf("redsync v4.18.1, one server, WithRetryDelayFunc random from %s to %s, WithTries unlimited, no token, go-redis pool of %d for each server", minDelay, maxDelay, pool),
		Waits:    true,
		Sends:    []string{"set"},
		Open: func(addrs []string) (Client, error) {
			client := dial(addrs, nil)
			return &redsyncClient{redsync.New(goredis.NewPool(client)), client}, nil
		},
	}
}

type redsyncClient struct {
	locks  *redsync.Redsync
	client redis.UniversalClient
}

func (c *redsyncClient) Do(ctx context.Context, key string, fn func()) error {
	lock := c.locks.NewMutex(key, redsync.WithExpiry(TTL), redsync.WithTries(math.MaxInt), redsync.WithRetryDelayFunc(delay))
	if err := lock.LockContext(ctx); err != nil {
		return err
	}
	fn()
	_, err := lock.UnlockContext(ctx)
	return err
}

func (c *redsyncClient) Close() error { return c.client.Close() }
