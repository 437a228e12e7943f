package picket_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/picket-go/picket"
	"github.com/picket-go/picket/memstore"
)

// A long job does its work in steps. Before each it asks Check, which costs no request; work that blocks gets the lease's context, whose cause says why it ended.
func ExampleLease_Check() {
	store := memstore.New()
	locker := picket.New(store, picket.WithTTL(300*time.Millisecond))
	lease, err := locker.Acquire(context.Background(), "reindex")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = lease.Release(context.Background()) }()

	ctx := lease.Context(context.Background())
	for step := 1; step <= 3; step++ {
		if err := lease.Check(); err != nil {
			lost, _ := errors.AsType[*picket.LostError](err)
			fmt.Printf("stopped before step %d: %s\n", step, lost.Reason)
			return
		}
		fmt.Println("step", step)
		if step == 2 { // an operator deletes the record
			store.Lose("reindex", picket.ReasonDeleted)
			<-ctx.Done()
			fmt.Println("lost:", errors.Is(context.Cause(ctx), picket.ErrLost))
		}
	}
	// Output:
	// step 1
	// step 2
	// lost: true
	// stopped before step 3: deleted
}
