package rival

import (
	"context"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

func rueidislockRival() Rival {
	return Rival{
		Name:     "rueidislock",
		Settings: "rueidislock v1.0.79, KeyMajority 1, NoLoopTracking, KeyValidity 30s, TryNextAfter 1s, MaxFlushDelay 20µs, no token",
		Waits:    true,
		Open: func(addrs []string) (Client, error) {
			locks, err := rueidislock.NewLocker(rueidislock.LockerOption{
				ClientOption:   rueidis.ClientOption{InitAddress: addrs, MaxFlushDelay: 20 * time.Microsecond},
				KeyMajority:    1,
				NoLoopTracking: true,
				KeyValidity:    TTL,
				TryNextAfter:   time.Second, // its 20 ms also bound each call, which a busy machine exceeds
			})
			return rueidislockClient{locks}, err
		},
	}
}

type rueidislockClient struct{ locks rueidislock.Locker }

func (c rueidislockClient) Do(ctx context.Context, key string, fn func()) error {
	_, release, err := c.locks.WithContext(ctx, key)
	if err != nil {
		return err
	}
	fn()
	release()
	return nil
}

func (c rueidislockClient) Close() error {
	c.locks.Close()
	return nil
}
