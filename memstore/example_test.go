package memstore_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/picket-go/picket"
	"github.com/picket-go/picket/memstore"
)

// report is code under test: it must stop when its lease is gone, and must not run twice.
func report(ctx context.Context, locks *picket.Locker, work func(ctx context.Context)) error {
	return locks.TryDo(ctx, "report", func(ctx context.Context, _ *picket.Lease) error {
		work(ctx)
		return context.Cause(ctx)
	})
}

// What does your code do when its lease goes away in the middle of the work, or when the store is out of reach?
func Example() {
	ctx := context.Background()
	store := memstore.New()
	locks := picket.New(store, picket.WithTTL(time.Second)) // short, as a loss is seen by the next renewal, after a third of it

	err := report(ctx, locks, func(context.Context) { fmt.Println("working") })
	fmt.Println("done:", err)

	err = report(ctx, locks, func(ctx context.Context) {
		store.Lose("report", picket.ReasonDeleted)
		<-ctx.Done()
	})
	lost, _ := errors.AsType[*picket.LostError](err)
	fmt.Println("lost:", lost.Reason)

	store.Fail(picket.ErrRefused)
	err = report(ctx, locks, func(context.Context) { fmt.Println("never printed") })
	fmt.Println("refused:", errors.Is(err, picket.ErrRefused))

	store.Fail(nil)
	err = report(ctx, locks, func(context.Context) { fmt.Println("working again") })
	fmt.Println("done:", err)

	// Output:
	// working
	// done: <nil>
	// lost: deleted
	// refused: true
	// working again
	// done: <nil>
}
