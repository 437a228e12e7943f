package picket_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/picket-go/picket"
	"github.com/picket-go/picket/memstore"
)

// Code deep in a call chain finds the lease by its key, without a parameter. To acquire the key once more would wait for ever, and is refused at once.
func ExampleFromContext() {
	locker := picket.New(memstore.New())

	save := func(ctx context.Context, account string) error {
		lease, ok := picket.FromContext(ctx, account)
		if !ok {
			return errors.New("save: nobody has locked " + account)
		}
		fmt.Println("saving", account, "with a token:", lease.Token() > 0)
		return nil
	}

	ctx := context.Background()
	fmt.Println(save(ctx, "account:7"))
	err := locker.Do(ctx, "account:7", func(ctx context.Context, _ *picket.Lease) error {
		_, err := locker.Acquire(ctx, "account:7")
		fmt.Println("refused:", errors.Is(err, picket.ErrInvalid))
		return save(ctx, "account:7")
	})
	fmt.Println(err)
	// Output:
	// save: nobody has locked account:7
	// refused: true
	// saving account:7 with a token: true
	// <nil>
}
