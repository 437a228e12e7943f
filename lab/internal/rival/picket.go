package rival

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/picket-go/picket"
	"github.com/picket-go/picket/lab/internal/wire"
	"github.com/picket-go/picket/redisstore"
)

func picketRival() Rival {
	return Rival{
		Name:     "picket",
		Settings: fmt.Sprintf("this tree, with token, go-redis pool of %d for each server, else defaults", pool),
		Waits:    true,
		Sends:    []string{"subscribe", "unsubscribe", "ssubscribe", "sunsubscribe", "ping"},
		Open: func(addrs []string) (Client, error) {
			return OpenPicket(addrs, nil)
		},
	}
}

// Picket is a Locker with all that it stands on.
type Picket struct {
	Locker *picket.Locker
	store  *redisstore.Store
	client redis.UniversalClient
}

// OpenPicket returns a Locker with these options and a client of its own, whose connections go through tap if there is one.
func OpenPicket(addrs []string, tap *wire.Tap, opts ...picket.Option) (*Picket, error) {
	client := dial(addrs, tap)
	store, err := redisstore.New(client)
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	opts = append([]picket.Option{picket.WithTTL(TTL)}, opts...)
	return &Picket{Locker: picket.New(store, opts...), store: store, client: client}, nil
}

var errNoToken = errors.New("the grant has no token")

// Do implements Client.
func (p *Picket) Do(ctx context.Context, key string, fn func()) error {
	lease, err := p.Locker.Acquire(ctx, key)
	if err != nil {
		return err
	}
	if lease.Token() <= 0 {
		return errNoToken
	}
	fn()
	return lease.Release(ctx)
}

// Close implements Client.
func (p *Picket) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), TTL)
	defer cancel()
	return errors.Join(p.Locker.Shutdown(ctx), p.store.Close(ctx), p.client.Close())
}
