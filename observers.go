package picket

import (
	"context"
	"errors"
)

func (s *settings) acquireStart(ctx context.Context, key string) context.Context {
	for _, o := range s.observers {
		if o.AcquireStart != nil {
			ctx = o.AcquireStart(ctx, key)
		}
	}
	return ctx
}

func (s *settings) acquireEnd(ctx context.Context, e AcquireEvent) {
	for _, o := range s.observers {
		if o.AcquireEnd != nil {
			o.AcquireEnd(ctx, e)
		}
	}
}

func (s *settings) releaseEnd(ctx context.Context, e ReleaseEvent) {
	for _, o := range s.observers {
		if o.ReleaseEnd != nil {
			o.ReleaseEnd(ctx, e)
		}
	}
}

func (s *settings) watchLeases() bool {
	for _, o := range s.observers {
		if o.LeaseChange != nil {
			return true
		}
	}
	return false
}

func (s *settings) leaseChange(e LeaseEvent) {
	for _, o := range s.observers {
		if o.LeaseChange != nil {
			o.LeaseChange(e)
		}
	}
}

// count sorts the answer to one renewal. One that was no longer needed, as the lease was released meanwhile, is taken out.
func (e *RenewEvent) count(err error, needed bool) {
	switch {
	case !needed:
		e.Leases--
	case err == nil:
		e.Renewed++
	case errors.Is(err, ErrLost):
		e.Lost++
	default:
		e.Unanswered++
	}
}
