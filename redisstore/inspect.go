package redisstore

import (
	"context"
	"iter"

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

// List yields the keys with a record that begin with prefix, in no order, each once. It walks all keys of the server in small steps; a lock that comes or goes meanwhile
// may or may not be among them. A key that holds no record of ours is skipped.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[picket.Status, error] {
	return func(yield func(picket.Status, error) bool) {
		pattern := globber.Replace(s.set.prefix+"{"+escaper.Replace(prefix)) + "*}"
		seen := map[string]bool{}
		for cursor := uint64(0); ; {
			names, next, err := s.scan(ctx, cursor, pattern, seen)
			if err != nil {
				yield(picket.Status{}, err)
				return
			}
			if !s.yieldAll(ctx, names, yield) || next == 0 {
				return
			}
			cursor = next
		}
	}
}

// yieldAll inspects the names and yields those with a record; false ends the listing.
func (s *Store) yieldAll(ctx context.Context, names []string, yield func(picket.Status, error) bool) bool {
	for len(names) > 0 {
		n := min(len(names), inspectCount)
		r := s.inspection(names[:n]...)
		all, err := s.call(ctx, r)
		if err != nil {
			yield(picket.Status{}, err)
			return false
		}
		for i, a := range all {
			st, err := a.status(r.subject, names[i])
			if err == nil && st.State != picket.StatusFree && !yield(st, nil) {
				return false
			}
		}
		names = names[n:]
	}
	return true
}

// scanOnce is not repeated by go-redis, which would wait in between and hide what the server says.
type scanOnce struct{ *redis.ScanCmd }

// NoRetry is asked by go-redis before it repeats a command.
func (scanOnce) NoRetry() bool { return true }

// scan takes one step through the server's keys and returns the names of records that were not seen before.
func (s *Store) scan(ctx context.Context, cursor uint64, pattern string, seen map[string]bool) (names []string, next uint64, err error) {
	raw, err := s.send(ctx, func(ctx context.Context) ([]any, error) {
		cmd := scanOnce{redis.NewScanCmd(ctx, nil, "scan", cursor, "match", pattern, "count", scanCount)}
		if err := s.client.Process(ctx, cmd); err != nil {
			return nil, err
		}
		keys, next := cmd.Val()
		return []any{keys, next}, nil
	})
	if err != nil {
		return nil, 0, s.failed(ctx, subject{op: "list"}, err)
	}
	keys, _ := raw[0].([]string)
	next, _ = raw[1].(uint64)
	for _, key := range keys {
		if name, ok := s.name(key); ok && !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	return names, next, nil
}
