package picket_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/picket-go/picket"
	"github.com/picket-go/picket/memstore"
)

// How does your own code behave when its lease goes away? memstore takes it away in a test.
func Example_lostLease() {
	store := memstore.New()
	locker := picket.New(store)

	// The code to test: it writes only while the lease is good.
	transfer := func(ctx context.Context, lease *picket.Lease) error {
		if err := lease.Check(); err != nil {
			return err
		}
		fmt.Println("written")
		return nil
	}

	err := locker.Do(context.Background(), "account:7", func(ctx context.Context, lease *picket.Lease) error {
		if err := transfer(ctx, lease); err != nil {
			return err
		}
		store.Lose("account:7", picket.ReasonStolen)
		if _, err := lease.Confirm(ctx); err != nil { // or wait for the next renewal
			fmt.Println("confirm:", errors.Is(err, picket.ErrLost))
		}
		return transfer(ctx, lease)
	})
	lost, ok := errors.AsType[*picket.LostError](err)
	fmt.Println(ok, lost.Reason)
	// Output:
	// written
	// confirm: true
	// true stolen
}
