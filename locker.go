package picket

import (
	"context"
	"errors"
	"fmt"

	"github.com/picket-go/picket/internal/lease"
)

// Locker grants leases on keys of one store. Without leases and waiters it owns no goroutine, timer or connection.
type Locker struct {
	core *core
	set  settings
}

// New returns a Locker on store. It does no I/O; a bad combination of options is reported as ErrInvalid by every acquire.
func New(store Store, opts ...Option) *Locker {
	l := &Locker{newCore(store), defaults()}
	l.set.apply(opts)
	if store == nil {
		l.set.err = invalid("the store is nil")
	}
	return l
}

// With returns a Locker for another kind of lock: same store, renewer and queue, settings changed by opts. It costs one small allocation.
func (l *Locker) With(opts ...Option) *Locker {
	n := &Locker{l.core, l.set}
	n.set.apply(opts)
	return n
}

// Acquire waits until key is granted, ctx ends, MaxWait is over (ErrBusy) or the store has been silent for one TTL (ErrUnavailable). ctx bounds only the acquiring.
func (l *Locker) Acquire(ctx context.Context, key string) (*Lease, error) {
	return l.acquire(ctx, key, (*Locker).waitForOthers)
}

// TryAcquire makes one attempt and returns a *BusyError when the key is held, cooling, or others wait for it. It gives up with ErrUnavailable after 3 s without answer.
func (l *Locker) TryAcquire(ctx context.Context, key string) (*Lease, error) {
	return l.acquire(ctx, key, (*Locker).try)
}

func (l *Locker) acquire(ctx context.Context, key string, how func(*Locker, context.Context, string) (*Lease, int, error)) (*Lease, error) {
	var began lease.Instant
	observed := len(l.set.observers) > 0
	if observed {
		ctx, began = l.set.acquireStart(ctx, key), l.core.clock.now()
	}
	var (
		le       *Lease
		attempts int
	)
	err := l.admit(ctx, key)
	if err == nil {
		le, attempts, err = l.entered(ctx, key, how)
	}
	if observed {
		told := false
		defer func() {
			if !told && le != nil { // a hook panicked, and the caller will never see the lease
				le.discard(ctx)
			}
		}()
		l.set.acquireEnd(ctx, AcquireEvent{Key: key, Lease: le, Err: err, Waited: l.core.clock.now() - began, Attempts: attempts})
		told = true
	}
	return le, err
}

// entered runs how and leaves the core, also when the store panics.
func (l *Locker) entered(ctx context.Context, key string, how func(*Locker, context.Context, string) (*Lease, int, error)) (*Lease, int, error) {
	defer l.core.leave()
	return how(l, ctx, key)
}

// admit refuses what could never be granted, before anything is sent; after nil the caller has entered the core.
func (l *Locker) admit(ctx context.Context, key string) error {
	if err := l.askable(key); err != nil {
		return err
	}
	over := ctx.Err() != nil // before it enters: a ctx that is nil panics here, and the caller may live on
	if err := l.core.enter(); err != nil {
		return err
	}
	if over {
		l.core.leave()
		return ended(ctx, "picket: acquire "+quote(key))
	}
	return nil
}

// askable refuses what no store is asked for.
func (l *Locker) askable(key string) error {
	switch {
	case l.set.err != nil:
		return l.set.err
	case key == "":
		return invalid("the key is empty")
	case len(key) > maxKey:
		return invalid("the key has %d bytes, more than %d", len(key), maxKey)
	}
	return nil
}

const maxKey = 512

// Do acquires key, runs fn, releases. fn's ctx is a child of ctx that also ends, with a *LostError as cause, before the lease can end.
// Do returns nil only if fn returned nil and the lease was good when it returned; it returns after fn has returned, also when fn panics.
// ErrUncertain after a nil of fn says that the work is done and only the release went unanswered: the key frees itself.
func (l *Locker) Do(ctx context.Context, key string, fn func(ctx context.Context, lease *Lease) error) error {
	return l.do(ctx, key, fn, l.Acquire)
}

// TryDo is Do with one attempt: fn has not run if the error is a *BusyError for key.
func (l *Locker) TryDo(ctx context.Context, key string, fn func(ctx context.Context, lease *Lease) error) error {
	return l.do(ctx, key, fn, l.TryAcquire)
}

func (l *Locker) do(ctx context.Context, key string, fn func(context.Context, *Lease) error, acquire func(context.Context, string) (*Lease, error)) error {
	if fn == nil {
		return invalid("the function to run under %q is nil", key)
	}
	le, err := acquire(ctx, key)
	if err != nil {
		return err
	}
	free := func() error { return le.Release(context.WithoutCancel(ctx)) }
	returned := false
	defer func() {
		if !returned { // fn panicked, or ended its goroutine
			_ = free()
		}
	}()
	err = fn(le.Context(ctx), le)
	returned = true
	lost := le.lostOrReleased() // before the release, which ends the lease either way
	freed := free()
	if lost == nil {
		lost = freed
	}
	return ran(key, err, lost)
}

// ran is the error of a function that has run: its own, and what became of the lease.
func ran(key string, err, lost error) error {
	if busy, ok := errors.AsType[*BusyError](err); ok && busy.Key == key {
		err = ranError{err}
	}
	switch {
	case err == nil:
		return lost
	case lost == nil, sameLoss(err, lost):
		return err
	}
	return &lineError{oneLine(err.Error()) + " (" + lost.Error() + ")", []error{err, lost}}
}

// sameLoss reports whether err has told of lost already.
func sameLoss(err, lost error) bool {
	a, told := errors.AsType[*LostError](err)
	b, is := errors.AsType[*LostError](lost)
	return told && is && a.Key == b.Key && a.Token == b.Token
}

// ranError hides a *BusyError that came out of fn: a caller of TryDo may conclude from one that fn has not run.
type ranError struct{ err error }

func (e ranError) Error() string {
	return "picket: the function ran and returned: " + oneLine(e.err.Error())
}

func (e ranError) Is(target error) bool { return target != ErrBusy && errors.Is(e.err, target) }

func (e ranError) As(target any) bool {
	_, busy := target.(**BusyError)
	return !busy && errors.As(e.err, target)
}

// Inspect tells what the store knows of key; a free key is a Status, not an error. It is ErrUnavailable after 3 s without answer.
func (l *Locker) Inspect(ctx context.Context, key string) (Status, error) {
	if err := l.askable(key); err != nil {
		return Status{}, err
	}
	call := l.core.bounded(ctx, tryBound)
	defer call.Stop()
	st, err := l.core.store.Inspect(call, key)
	if err != nil {
		return Status{}, failed(ctx, "inspect", key, err)
	}
	return st, nil
}

// Shutdown refuses new claims and ends waiting ones with ErrClosed, cancels the contexts of held leases with cause ErrClosed, and waits for their
// releases until ctx ends; meanwhile they are renewed. It closes nothing that the caller made. What is not released by then ends with its TTL.
// Calls to the store that are under way when ctx ends are told to end, and waited for: on Redis that takes a second at most.
func (l *Locker) Shutdown(ctx context.Context) error {
	held, quiet := l.core.shutdown()
	for _, le := range held {
		le.close()
	}
	select {
	case <-quiet:
		return nil
	case <-ctx.Done():
	}
	left := l.core.abort()
	<-quiet // soon: every call has been told to end
	if left == 0 {
		return nil
	}
	return ended(ctx, fmt.Sprintf("picket: shutdown: %d leases are not released, they end with their TTL", left))
}
