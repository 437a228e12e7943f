package picket_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/picket-go/picket"
	"github.com/picket-go/picket/memstore"
)

// Three replicas start the same nightly job; the one that comes first runs it, the others see who does.
func ExampleLocker_TryAcquire() {
	ctx := context.Background()
	store := memstore.New()
	first := picket.New(store, picket.WithLabel("replica 1"))
	second := picket.New(store, picket.WithLabel("replica 2"))

	lease, err := first.TryAcquire(ctx, "nightly")
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = second.TryAcquire(ctx, "nightly")
	if busy, ok := errors.AsType[*picket.BusyError](err); ok {
		fmt.Println("skipped:", busy.Holder.Label, "is at it")
	}

	fmt.Println("released:", lease.Release(ctx))
	again, err := second.TryAcquire(ctx, "nightly")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("the token has risen:", again.Token() > lease.Token())
	fmt.Println("released:", again.Release(ctx))
	// Output:
	// skipped: replica 1 is at it
	// released: <nil>
	// the token has risen: true
	// released: <nil>
}
