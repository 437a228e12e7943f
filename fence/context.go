package fence

import (
	"context"
	"fmt"
)

// resourceKey makes each resource a context key of its own, so that nested locks do not hide each other.
type resourceKey string

// NewContext binds l to resource. picket's Locker.Do and Lease.Context bind a lease to its key; bind others by hand when resource and key differ.
func NewContext(ctx context.Context, resource string, l Lease) context.Context {
	return context.WithValue(ctx, resourceKey(resource), l)
}

// FromContext returns the lease bound to resource, the innermost if there are several. There is no "the" token of a context: two locks give two.
// Without one the error is ErrNoToken and names the resource. It does not tell whether the lease is still good: that is the lease's Check.
func FromContext(ctx context.Context, resource string) (Lease, error) {
	l, ok := ctx.Value(resourceKey(resource)).(Lease)
	if !ok {
		return nil, fmt.Errorf("%w %q: bind a lease with fence.NewContext, or use the lock's own context", ErrNoToken, resource)
	}
	return l, nil
}
