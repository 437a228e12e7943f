package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/picket-go/picket"
)

// ReplicasError says that a grant does not count, or a renewal is not secured, because too few servers acknowledged it in time. It is an ErrUnavailable: a later attempt may
// find the replicas back. The claim is in doubt: its record may be there until it is released or its TTL ends. A Locker asks again, and releases it when it gives up.
type ReplicasError struct {
	Key       string // "" for a batch of renewals
	Got, Want int
	AOF       bool // counted are servers that have written it to their append-only file, the master among them
}

// Error is one line.
func (e *ReplicasError) Error() string {
	what := "replicas acknowledged"
	if e.AOF {
		what = "servers saved"
	}
	if e.Key == "" {
		return fmt.Sprintf("redisstore: only %d of %d %s a renewal in time", e.Got, e.Want, what)
	}
	return fmt.Sprintf("redisstore: acquire %q: only %d of %d %s the grant in time, it does not count", e.Key, e.Got, e.Want, what)
}

// Is reports whether target is picket.ErrUnavailable.
func (e *ReplicasError) Is(target error) bool { return target == picket.ErrUnavailable }

// durable reports whether a grant counts only when others have it.
func (s *Store) durable() bool { return s.set.replicas.asked() || s.set.aof.asked() }

// carryDurably is carry, and waits for the replicas on the same connection: WAIT speaks of the writes of its own connection only. One WAIT is for all claims of the call.
func (n *node) carryDurably(ctx context.Context, es []*entry, args []any) []any {
	conn := n.patient.Conn()
	defer conn.Close() //nolint:errcheck // gives it back to the pool
	args = n.submit(ctx, conn, es, args)
	n.secure(ctx, conn, es)
	return args
}

// secure lets those of es that were granted over conn count only if the replicas have them.
func (n *node) secure(ctx context.Context, conn *redis.Conn, es []*entry) {
	granted := slices.DeleteFunc(slices.Clone(es), func(e *entry) bool { return e.err != nil || e.answer.word != "granted" })
	if len(granted) == 0 {
		return
	}
	short, err := n.store.wait(ctx, conn)
	if short == nil && err == nil {
		return
	}
	refused := err != nil && definite(n.store.failed(ctx, granted[0].subject, err))
	undone := refused && undo(ctx, conn, granted) == nil
	for _, e := range granted {
		e.answer = answer{}
		if short != nil {
			e.err = &ReplicasError{Key: e.name, Got: short.Got, Want: short.Want, AOF: short.AOF}
			continue
		}
		e.err = n.store.failed(ctx, e.subject, err)
		if failure, ok := errors.AsType[*serverError](e.err); ok {
			failure.unsent = undone // whatever became of WAIT
		}
	}
}

// definite reports whether the server will not wait for replicas, however often it is asked: it lacks the command, or the user the permission.
func definite(err error) bool {
	return errors.Is(err, picket.ErrRefused) || errors.Is(err, picket.ErrUnsupported)
}

// undo releases what was granted. It is for servers that never wait: no grant of theirs counts, so none can be taken away. When replicas are missing nothing is undone here: a
// caller that has left may have sent the same claim again, and an undo that comes after that grant would take it away unseen. Whoever gives the claim up undoes it then.
func undo(ctx context.Context, conn *redis.Conn, granted []*entry) error {
	rs := make([]request, len(granted))
	for i, e := range granted {
		var keys []string
		for _, key := range e.words[:e.keys] {
			keys = append(keys, string(key))
		}
		rs[i] = newRequest("release", e.name, claimScript, keys, &e.words[e.n-askingWords], markPlain)
	}
	for _, o := range exec(ctx, conn, rs, false) {
		if o.err != nil {
			return o.err
		}
	}
	return nil
}

// patience is how long a call may take with its replicas.
func (s *Store) patience() time.Duration {
	return callBound + s.set.replicas.timeout + s.set.aof.timeout
}

// wait asks how many servers have what conn has written. It answers before ctx ends: a call that is cut off does not tell what was missing.
func (s *Store) wait(ctx context.Context, conn *redis.Conn) (*ReplicasError, error) {
	if d := s.set.replicas; d.asked() {
		got, err := count(ctx, conn, "wait", d.count, within(ctx, d.timeout))
		if err != nil {
			return nil, err
		}
		if len(got) < 1 || got[0] < d.count {
			return &ReplicasError{Got: sum(got), Want: d.count}, nil
		}
	}
	if d := s.set.aof; d.asked() {
		const local = 1 // the server itself
		got, err := count(ctx, conn, "waitaof", local, d.count, within(ctx, d.timeout))
		if err != nil {
			return nil, err
		}
		if len(got) < 2 || got[0] < local || got[1] < d.count {
			return &ReplicasError{Got: sum(got), Want: local + d.count, AOF: true}, nil
		}
	}
	return nil, nil
}

// within is the timeout of a command that waits, in milliseconds. It leaves an eighth of what ctx has left to the way back; 0 would be for ever.
func within(ctx context.Context, timeout time.Duration) int64 {
	if d, ok := ctx.Deadline(); ok {
		left := time.Until(d)
		timeout = min(timeout, left-left/8)
	}
	return max(timeout.Milliseconds(), 1)
}

// count sends a command that waits, and answers one number or several. It is not repeated: on another connection it would speak of other writes.
func count(ctx context.Context, conn *redis.Conn, args ...any) ([]int, error) {
	cmd := once{redis.NewCmd(ctx, args...)}
	if err := conn.Process(ctx, cmd); err != nil {
		return nil, err
	}
	switch v := cmd.Val().(type) {
	case int64:
		return []int{int(v)}, nil
	case []any:
		all := make([]int, len(v))
		for i, x := range v {
			n, _ := x.(int64)
			all[i] = int(n)
		}
		return all, nil
	}
	return nil, nil
}

func sum(all []int) (n int) {
	for _, x := range all {
		n += x
	}
	return n
}
