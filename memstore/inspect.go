package memstore

import (
	"context"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/picket-go/picket"
)

// Inspect reports on key without changing it. A lock that is being handed over is held by the waiter that is to confirm.
func (s *Store) Inspect(ctx context.Context, key string) (picket.Status, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, err := s.ready(ctx)
	if err != nil {
		return picket.Status{}, err
	}
	return s.status(key, now), nil
}

func (s *Store) status(key string, now time.Time) picket.Status {
	st := picket.Status{Key: key, State: picket.StatusFree}
	st.Token, _ = s.tokens.get(key, now)
	l := s.lock(key, now)
	if l == nil {
		return st
	}
	st.Waiters = l.queue.ahead("", now)
	r := l.rec
	if r == nil {
		return st
	}
	st.Holder, st.Token, st.TTL = r.holder(), r.token, r.claim.TTL
	st.State, st.Remaining = picket.StatusCooling, r.free.Sub(now)
	if r.live(now) {
		st.State, st.Remaining = picket.StatusHeld, r.ends.Sub(now)
	}
	return st
}

// List yields the keys with a record that begin with prefix, sorted, as they were when the iteration began. It ends with ctx's error if ctx ends first.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[picket.Status, error] {
	return func(yield func(picket.Status, error) bool) {
		all, err := s.snapshot(ctx, prefix)
		for _, st := range all {
			if err = ctx.Err(); err != nil {
				break
			}
			if !yield(st, nil) {
				return
			}
		}
		if err != nil {
			yield(picket.Status{}, err)
		}
	}
}

func (s *Store) snapshot(ctx context.Context, prefix string) ([]picket.Status, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, err := s.ready(ctx)
	if err != nil {
		return nil, err
	}
	var all []picket.Status
	for key := range s.locks.m {
		if !strings.HasPrefix(key, prefix) {
			continue
		}
		if st := s.status(key, now); st.State != picket.StatusFree {
			all = append(all, st)
		}
	}
	slices.SortFunc(all, func(a, b picket.Status) int { return strings.Compare(a.Key, b.Key) })
	return all, nil
}
