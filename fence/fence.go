// Package fence checks fencing tokens at the resource, where they count: a holder that paused past its lease is refused although it still believes in it.
//
// A lock gives every holder a token that is larger than all earlier ones. A guard remembers the highest token it has seen for a resource, lets that one and
// larger ones pass, and refuses smaller ones with a *StaleTokenError. Check and effect must be one atomic act: a check before the write only narrows the window.
//
// One resource is guarded by one key of one store: the tokens of two keys are not ordered.
//
// The package imports the standard library only; picket imports it, not the other way round. So code at the resource need not import the lock.
package fence

import (
	"context"
	"errors"
	"fmt"
)

// Lease is what a guard needs of a lease; *picket.Lease is one.
type Lease interface {
	Key() string
	Token() int64
	Check() error
}

// Memory remembers the highest token per resource. A Gate is one; another may be in a database.
type Memory interface {
	// Admit returns nil and remembers token if no larger one has been seen for resource, else a *StaleTokenError. Any other error means that nothing is known
	// about token: the caller must not go on.
	Admit(ctx context.Context, resource string, token int64) error
}

// What guards and contexts report, for errors.Is.
var (
	ErrStale   = errors.New("fence: stale token")           // a larger token has been seen; *StaleTokenError has the numbers
	ErrNoToken = errors.New("fence: no token for resource") // the context carries no lease for it, or the token is below 1, which no store grants
)

// StaleTokenError carries the numbers; give Seen to Lease.Reissue if the token is known to be the current one.
type StaleTokenError struct {
	Resource   string
	Have, Seen int64
}

func (e *StaleTokenError) Error() string {
	return fmt.Sprintf("fence: token %d for resource %q is stale: it has seen %d, so a later holder was here; stop, nothing was done", e.Have, e.Resource, e.Seen)
}

// Is reports whether target is ErrStale.
func (e *StaleTokenError) Is(target error) bool { return target == ErrStale }
