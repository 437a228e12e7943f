package fence_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/picket-go/picket/fence"
)

// The holder of token 33 paused, its lease ended, and the holder of token 34 wrote. When the first one wakes up, its write is refused.
func ExampleGate() {
	var gate fence.Gate
	write := func(token int64, text string) error {
		return gate.Do(context.Background(), "report", token, func(context.Context) error {
			fmt.Println("wrote", text)
			return nil
		})
	}

	fmt.Println(write(34, "new"))
	err := write(33, "old")
	fmt.Println(errors.Is(err, fence.ErrStale))
	if stale, ok := errors.AsType[*fence.StaleTokenError](err); ok {
		fmt.Println("have", stale.Have, "seen", stale.Seen)
	}
	// Output:
	// wrote new
	// <nil>
	// true
	// have 33 seen 34
}

func ExampleFromContext() {
	_, err := fence.FromContext(context.Background(), "report")
	fmt.Println(err)
	// Output:
	// fence: no token for resource "report": bind a lease with fence.NewContext, or use the lock's own context
}
