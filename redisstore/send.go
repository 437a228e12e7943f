package redisstore

import (
	"context"
	"time"

	"github.com/picket-go/picket/internal/bound"
)

// subject is what a call is about, for errors.
type subject struct {
	op   string // acquire, release
	name string // the lock, if there is one
}

// request is one call of a script.
type request struct {
	subject
	script *script
	keys   int
	args   []any // places for the command itself, the keys, then the arguments
	claims int   // answers expected
}

// record is the first of its keys.
func (r request) record() string {
	switch key := r.args[places].(type) {
	case string:
		return key
	case *word:
		return string(*key)
	}
	return ""
}

func newRequest(op, name string, sc *script, keys []string, args ...any) request {
	r := request{subject: subject{op, name}, script: sc, keys: len(keys), claims: 1, args: make([]any, places, places+len(keys)+len(args))}
	for i := range keys {
		r.args = append(r.args, keys[i])
	}
	r.args = append(r.args, args...)
	return r
}

// call sends r and returns its answers, one for each claim. It returns soon after ctx ends, whatever the network does.
func (s *Store) call(ctx context.Context, r request) ([]answer, error) {
	raw, err := send(ctx, s, callBound, func(ctx context.Context) ([]any, error) { return s.follow(ctx, r) })
	if err != nil {
		return nil, s.failed(ctx, r.subject, err)
	}
	return answers(r, raw)
}

// one is call for a single claim.
func (s *Store) one(ctx context.Context, r request) (answer, error) {
	all, err := s.call(ctx, r)
	if err != nil {
		return answer{}, err
	}
	return all[0], all[0].failure(r.subject)
}

// send runs f, which talks to the server, for up to limit. go-redis heeds a deadline but never a cancelled ctx, so unless ctx can end by its deadline only, f runs on a
// goroutine of the Store's, and goes on when the caller has left.
func send[T any](ctx context.Context, s *Store, limit time.Duration, f func(context.Context) (T, error)) (got T, err error) {
	if err := ctx.Err(); err != nil {
		return got, unsentError{err}
	}
	if obeys(bound.EndsOf(ctx)) {
		if s.crew.over.Load() {
			return got, errClosed
		}
		call, stop := straight(ctx, limit)
		defer stop()
		return f(call)
	}
	select {
	case s.slots <- signal{}:
	case <-ctx.Done():
		return got, unsentError{ctx.Err()}
	}
	type result struct {
		got T
		err error
	}
	done := make(chan result, 1)
	call := bound.Detached(ctx, untilDeadline(ctx, limit))
	err = s.crew.run(func() {
		defer func() { <-s.slots }()
		defer call.Stop()
		got, err := f(call)
		done <- result{got, err}
	})
	if err != nil {
		<-s.slots
		return got, err
	}
	select {
	case r := <-done:
		return r.got, r.err
	case <-ctx.Done():
		return got, ctx.Err()
	}
}

// obeys reports whether a call on the caller's own goroutine is sure to end when its ctx does. A Locker's life may end before it, but no later than a call.
func obeys(ends bound.Ends) bool { return ends.Parent == nil }

// straight is the context for a call on the caller's goroutine: the socket has its timeout, but dialling and the pool do not.
func straight(ctx context.Context, limit time.Duration) (context.Context, func()) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	call := bound.New(ctx, limit)
	return call, call.Stop
}

// untilDeadline is how long a call that its caller may leave goes on at most.
func untilDeadline(ctx context.Context, limit time.Duration) time.Duration {
	if d, ok := ctx.Deadline(); ok {
		return min(time.Until(d), limit)
	}
	return limit
}
