package picket_test

import (
	"context"
	"fmt"

	"github.com/picket-go/picket"
	"github.com/picket-go/picket/memstore"
)

// An Observer feeds metrics and traces; LogTo makes one that logs.
func ExampleWithObserver() {
	locker := picket.New(memstore.New(), picket.WithObserver(picket.Observer{
		AcquireEnd: func(_ context.Context, e picket.AcquireEvent) {
			fmt.Printf("acquire %s: attempts %d, error %v\n", e.Key, e.Attempts, e.Err)
		},
		LeaseChange: func(e picket.LeaseEvent) {
			fmt.Printf("lease on %s: from %s to %s\n", e.Lease.Key(), e.From, e.To)
		},
		ReleaseEnd: func(_ context.Context, e picket.ReleaseEvent) {
			fmt.Printf("release %s: error %v\n", e.Lease.Key(), e.Err)
		},
	}))

	err := locker.TryDo(context.Background(), "cache:warm", func(context.Context, *picket.Lease) error {
		fmt.Println("working")
		return nil
	})
	fmt.Println(err)
	// Output:
	// acquire cache:warm: attempts 1, error <nil>
	// working
	// lease on cache:warm: from held to released
	// release cache:warm: error <nil>
	// <nil>
}
