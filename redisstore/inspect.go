package redisstore

import (
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/picket-go/picket"
)

const (
	scanCount    = 500 // keys of any kind that the server looks at in one step of a listing
	inspectCount = 64
)

// Inspect reports on key without changing it. A lock that is being handed over is held by the waiter that is to confirm.
func (s *Store) Inspect(ctx context.Context, key string) (picket.Status, error) {
	r := s.inspection(key)
	r.name = key
	a, err := s.one(ctx, r)
	if err != nil {
		return picket.Status{}, err
	}
	return a.status(r.subject, key)
}

func (s *Store) inspection(names ...string) request {
	var keys []string
	for _, name := range names {
		keys = s.keys(keys, name)
	}
	r := newRequest("inspect", "", inspectScript, keys)
	r.claims = len(names)
	return r
}

// status reads the answer to an inspection.
func (a answer) status(s subject, key string) (picket.Status, error) {
	if err := a.failure(s); err != nil {
		return picket.Status{}, err
	}
	if a.word != "lock" {
		return picket.Status{}, s.garbled(a)
	}
	left := a.millis(1)
	st := picket.Status{Key: key, State: picket.StatusFree, Token: a.number(2), Waiters: int(a.number(3))}
	rec, ok := parseRecord(a.text(0))
	if !ok {
		return st, nil
	}
	st.Holder, st.Token, st.TTL = rec.holder, rec.token, rec.ttl
	st.State, st.Remaining = picket.StatusCooling, left
	if rec.live(left) {
		st.State, st.Remaining = picket.StatusHeld, left-rec.delay
	}
	return st, nil
}

// List yields the keys with a record that begin with prefix, in no order, each once. It walks all keys of the server, or of all masters of the Cluster, in small steps; a lock
// that comes or goes meanwhile, or whose slot of the Cluster is being moved, may or may not be among them. A master that does not answer is an error, after which the listing
// goes on with the others. A key that holds no record of ours is skipped.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[picket.Status, error] {
	return func(yield func(picket.Status, error) bool) {
		pattern := globber.Replace(s.set.prefix+"{"+escaper.Replace(prefix)) + "*}"
		masters, err := s.masters(ctx)
		if err != nil {
			yield(picket.Status{}, s.failed(ctx, subject{op: "list"}, err))
			return
		}
		if err := s.alone(ctx); err != nil {
			yield(picket.Status{}, err)
			return
		}
		seen := map[string]bool{}
		for _, n := range masters {
			more, err := n.list(ctx, pattern, seen, yield)
			if !more || err != nil && !yield(picket.Status{}, err) {
				return
			}
		}
	}
}

// masters are the servers that have keys.
func (s *Store) masters(ctx context.Context) ([]*node, error) {
	if s.cluster == nil {
		return []*node{s.home}, nil
	}
	return s.cluster.masters(ctx)
}

// alone fails if the server is not the only one that has keys. A node of a Cluster would list its own as if they were all; but it refuses what is about two slots.
func (s *Store) alone(ctx context.Context) error {
	if s.cluster != nil {
		return nil
	}
	r := s.inspection("a", "b")
	r.op = "list"
	_, err := s.call(ctx, r)
	return err
}

// list is List for one server. more is false when the caller has had enough.
func (n *node) list(ctx context.Context, pattern string, seen map[string]bool, yield func(picket.Status, error) bool) (more bool, err error) {
	for cursor := uint64(0); ; {
		names, next, err := n.scan(ctx, cursor, pattern, seen)
		if err != nil {
			return true, err
		}
		if more, err := n.yieldAll(ctx, names, yield); !more || err != nil {
			return more, err
		}
		if next == 0 {
			return true, nil
		}
		cursor = next
	}
}

// yieldAll inspects the names and yields those with a record.
func (n *node) yieldAll(ctx context.Context, names []string, yield func(picket.Status, error) bool) (more bool, err error) {
	for some := range slices.Chunk(names, inspectCount) {
		all, err := n.inspect(ctx, some)
		if err != nil {
			return true, err
		}
		for i, a := range all {
			st, err := a.status(subject{op: "inspect"}, some[i])
			if err == nil && st.State != picket.StatusFree && !yield(st, nil) {
				return false, nil
			}
		}
	}
	return true, nil
}

// inspect reports on several locks whose keys were found here.
func (n *node) inspect(ctx context.Context, names []string) ([]answer, error) {
	var rs []request
	for some := range slices.Chunk(names, n.store.together(len(names))) {
		rs = append(rs, n.store.inspection(some...))
	}
	out, err := send(ctx, n.store, callBound, func(ctx context.Context) ([]outcome, error) { return n.deliver(ctx, n.client, rs, false), nil })
	if err != nil {
		return nil, n.store.failed(ctx, subject{op: "list"}, err)
	}
	var all []answer
	for i, o := range out {
		some, err := o.answers(rs[i])
		if _, moves := errors.AsType[*redirect](err); moves {
			some, err = n.store.call(ctx, rs[i])
		}
		if err != nil {
			return nil, n.store.failed(ctx, subject{op: "list"}, err)
		}
		all = append(all, some...)
	}
	return all, nil
}

// scanOnce is not repeated by go-redis, which would wait in between and hide what the server says.
type scanOnce struct{ *redis.ScanCmd }

// NoRetry is asked by go-redis before it repeats a command.
func (scanOnce) NoRetry() bool { return true }

// scan takes one step through the server's keys and returns the names of records that were not seen before.
func (n *node) scan(ctx context.Context, cursor uint64, pattern string, seen map[string]bool) (names []string, next uint64, err error) {
	type step struct {
		keys []string
		next uint64
	}
	got, err := send(ctx, n.store, callBound, func(ctx context.Context) (step, error) {
		cmd := scanOnce{redis.NewScanCmd(ctx, nil, "scan", cursor, "match", pattern, "count", scanCount)}
		if err := n.client.Process(ctx, cmd); err != nil {
			return step{}, n.begun(err)
		}
		keys, next := cmd.Val()
		return step{keys, next}, nil
	})
	if err != nil {
		return nil, 0, n.store.failed(ctx, subject{op: "list"}, err)
	}
	for _, key := range got.keys {
		if name, ok := n.store.name(key); ok && !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	return names, got.next, nil
}
