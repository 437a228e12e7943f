package picket_test

import (
	"context"
	"fmt"

	"github.com/picket-go/picket"
	"github.com/picket-go/picket/memstore"
)

// A job that must not run twice at once: Do waits for the key, runs the job, and gives the key back.
func ExampleLocker_Do() {
	locker := picket.New(memstore.New())

	err := locker.Do(context.Background(), "invoice:42", func(ctx context.Context, lease *picket.Lease) error {
		// ctx ends before the lease can. Give the token to what you write, so that the resource can refuse a late writer.
		fmt.Println("charging under", lease.Key())
		return nil
	})
	fmt.Println(err)
	// Output:
	// charging under invoice:42
	// <nil>
}
