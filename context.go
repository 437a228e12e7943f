package picket

import (
	"context"
	"reflect"

	"github.com/picket-go/picket/fence"
)

// childKey is the context key of the innermost child of a lease.
type childKey struct{}

// inside returns the innermost child that ctx is, or comes from; nil if there is none.
func inside(ctx context.Context) *child {
	ch, _ := ctx.Value(childKey{}).(*child)
	return ch
}

// FromContext returns the lease on key that ctx carries: nested code finds it without a parameter. Innermost first if there are several on one key.
func FromContext(ctx context.Context, key string) (*Lease, bool) {
	for ch := inside(ctx); ch != nil; ch = ch.outer {
		if ch.lease.Key() == key {
			return ch.lease, true
		}
	}
	return nil, false
}

// heldBy returns the lease on key, of the same store, that ctx carries and that is not over; nil if there is none.
func (c *core) heldBy(ctx context.Context, key string) *Lease {
	for ch := inside(ctx); ch != nil; ch = ch.outer {
		if held := ch.lease; held.Key() == key && (held.core == c || sameStore(held.core.store, c.store)) && held.lostOrReleased() == nil {
			return held
		}
	}
	return nil
}

// sameStore compares stores that a user may have made of anything.
func sameStore(a, b Store) bool { return reflect.ValueOf(a).Comparable() && a == b }

// child is a context of a lease, and how it ends.
type child struct {
	lease  *Lease
	outer  *child // of the lease whose context the parent is, or comes from
	cancel context.CancelCauseFunc
	unhook func() bool // nil if the parent cannot end
}

// Context returns a child of parent that also ends when the lease does: with a *LostError as cause before it can be over at the store, with ErrReleased after
// Release. It carries the lease for FromContext and for guards. Nothing leaks if it is dropped: Release ends it.
func (l *Lease) Context(parent context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(parent)
	ch := &child{lease: l, cancel: cancel, outer: inside(parent)}
	l.mu.Lock()
	cause := l.cause
	if cause == nil {
		if l.children == nil {
			l.children = map[*child]struct{}{}
		}
		l.children[ch] = struct{}{}
		if parent.Done() != nil { // a long lease outlives many parents
			ch.unhook = context.AfterFunc(ctx, func() { l.orphan(ch) })
		}
	}
	l.mu.Unlock()
	if cause != nil {
		cancel(cause)
	}
	return fence.NewContext(context.WithValue(ctx, childKey{}, ch), l.claim.Key, l)
}

func (l *Lease) orphan(ch *child) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.children, ch)
}

// Done is closed when the lease's contexts end.
func (l *Lease) Done() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done == nil {
		l.done = make(chan struct{})
		if l.cause != nil {
			close(l.done)
		}
	}
	return l.done
}

// finish ends the contexts with cause, once; mu is held. It returns what to run after mu is free: a cancel runs the callbacks of other people.
func (l *Lease) finish(cause error) (cancel func()) {
	if l.cause != nil {
		return func() {}
	}
	l.cause = cause
	if l.done != nil {
		close(l.done)
	}
	children := l.children
	l.children = nil
	if len(children) == 0 {
		return func() {}
	}
	return func() {
		for ch := range children {
			if ch.unhook != nil {
				ch.unhook()
			}
			ch.cancel(cause)
		}
	}
}
