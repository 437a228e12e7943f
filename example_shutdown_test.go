package picket_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/picket-go/picket"
	"github.com/picket-go/picket/memstore"
)

// On SIGTERM a service lets its work end, and gives the keys back before it exits, so that the next one need not wait for a TTL.
func ExampleLocker_Shutdown() {
	locker := picket.New(memstore.New())
	started, stopped := make(chan struct{}), make(chan error)
	go func() {
		stopped <- locker.Do(context.Background(), "consumer", func(ctx context.Context, _ *picket.Lease) error {
			close(started)
			<-ctx.Done() // a real one stops taking messages here
			fmt.Println("stops, because the locker is shut down:", errors.Is(context.Cause(ctx), picket.ErrClosed))
			return nil
		})
	}()
	<-started

	// In main: ctx, stop := signal.NotifyContext(...); <-ctx.Done()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	fmt.Println("shutdown:", locker.Shutdown(ctx))
	fmt.Println("the work:", <-stopped)
	_, err := locker.Acquire(ctx, "consumer")
	fmt.Println(err)
	// Output:
	// stops, because the locker is shut down: true
	// shutdown: <nil>
	// the work: <nil>
	// picket: locker is shut down
}
