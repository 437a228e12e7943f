package filestore_test

import (
	"context"
	"fmt"
	"os"

	"github.com/picket-go/picket"
	"github.com/picket-go/picket/filestore"
)

// Two programs on one machine, or two runs of one, never do the job together.
func Example() {
	dir, err := os.MkdirTemp("", "locks") // in earnest a fixed one, such as /var/lib/backup/locks
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	store, err := filestore.New(dir)
	if err != nil {
		fmt.Println(err)
		return
	}
	err = picket.New(store).TryDo(context.Background(), "nightly", func(ctx context.Context, lease *picket.Lease) error {
		fmt.Println("token is positive:", lease.Token() > 0)
		return nil
	})
	fmt.Println("error:", err)
	// Output:
	// token is positive: true
	// error: <nil>
}
