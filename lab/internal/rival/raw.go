package rival

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
)

func rawRival() Rival {
	return Rival{
		Name:     "raw",
		Settings: fmt.Sprintf("go-redis v9.23.0: SET NX PX and a compare-and-delete EVALSHA, no token, no waiting, pool of %d for each server", pool),
		Sends:    []string{"set"},
		Open: func(addrs []string) (Client, error) {
			return &rawClient{dial(addrs, nil)}, nil
		},
	}
}

var compareAndDelete = redis.NewScript(`if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end return 0`)

var (
	errTaken = errors.New("the key is taken")
	errGone  = errors.New("the key was not ours any more")
)

// rawClient is what people write by hand, and the least that a lock can cost.
type rawClient struct{ client redis.UniversalClient }

func (c *rawClient) Do(ctx context.Context, key string, fn func()) error {
	id := rand.Text()
	err := c.client.SetArgs(ctx, key, id, redis.SetArgs{Mode: "NX", TTL: TTL}).Err()
	if errors.Is(err, redis.Nil) {
		return errTaken
	}
	if err != nil {
		return err
	}
	fn()
	n, err := compareAndDelete.Run(ctx, c.client, []string{key}, id).Int()
	if err == nil && n == 0 {
		err = errGone
	}
	return err
}

func (c *rawClient) Close() error { return c.client.Close() }
