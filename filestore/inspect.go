package filestore

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"os"
	"slices"
	"strings"

	"github.com/picket-go/picket"
)

// Inspect reports on key without locking anything, so that it never makes an acquire fail. The token of a key that was forgotten is 0.
func (s *Store) Inspect(ctx context.Context, key string) (picket.Status, error) {
	if err := ctx.Err(); err != nil {
		return picket.Status{}, err
	}
	if err := usual(key); err != nil {
		return picket.Status{}, err
	}
	p := s.place(key)
	r, known, err := s.readKey(p, key)
	if err != nil {
		return picket.Status{}, failed(err)
	}
	return s.status(p, key, r, known, readLocks()), nil
}

// List yields the keys that are held or cooling and begin with prefix, sorted, as they were when the iteration began. Behind them it yields an error,
// with the zero Status, for each record that cannot be read, which names its path: its key is not known, so prefix does not leave it out. Only the end
// of ctx and a directory that cannot be read end the list early: then their error is all that it yields.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[picket.Status, error] {
	return func(yield func(picket.Status, error) bool) {
		all, unread, err := s.statuses(ctx, prefix)
		if err != nil {
			yield(picket.Status{}, err)
			return
		}
		for _, st := range all {
			if !yield(st, nil) {
				return
			}
		}
		for _, err := range unread {
			if !yield(picket.Status{}, err) {
				return
			}
		}
	}
}

// statuses returns what List yields: the keys, the error of each record that cannot be read, and what ended the look.
func (s *Store) statuses(ctx context.Context, prefix string) (all []picket.Status, unread []error, err error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	entries, err := os.ReadDir(s.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, failed(err)
	}
	locks := readLocks()
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		name, ok := strings.CutSuffix(e.Name(), jsonSuffix)
		if !ok || name == floorName {
			continue
		}
		p := place{s.dir, name}
		r, known, err := s.read(p)
		if errors.Is(err, errForeign) {
			continue
		}
		if err != nil {
			unread = append(unread, failed(err))
			continue
		}
		if !known || !strings.HasPrefix(r.key(), prefix) {
			continue
		}
		if st := s.status(p, r.key(), r, known, locks); st.State != picket.StatusFree {
			all = append(all, st)
		}
	}
	slices.SortFunc(all, func(a, b picket.Status) int { return strings.Compare(a.Key, b.Key) })
	return all, unread, nil
}

func (s *Store) status(p place, key string, r record, known bool, locks lockTable) picket.Status {
	st := picket.Status{Key: key, State: picket.StatusFree, Token: r.Token, Waiters: -1}
	switch left, _ := r.rest(s.now()); {
	case s.locked(p, r, known, locks):
		st.State, st.TTL, st.Remaining = picket.StatusHeld, picket.NoExpiry, picket.NoExpiry
		st.Holder, _ = s.holder(p, r, known)
	case left > 0:
		st.State, st.Remaining, st.Holder = picket.StatusCooling, left, r.holder()
	}
	return st
}

// locked reports whether somebody has the lock at p: as the kernel says if it says all, else as the record and its process do.
func (s *Store) locked(p place, r record, known bool, locks lockTable) bool {
	_, answer := locks.of(p.lock())
	mayBe := known && r.Held == markHeld && r.Process.fate(s.self) != dead
	if answer == unlocked && mayBe {
		// The lock may have come since: a list reads the table once.
		_, answer = readLocks().of(p.lock())
	}
	if answer == unlocked && s.acceptsNet {
		answer = unknown // it may be another machine's
	}
	return answer == locked || answer == unknown && mayBe
}

// holder tells who has the lock at p, which is known to be held. It is not sure while the record may be that of the holder before.
func (s *Store) holder(p place, r record, known bool) (h picket.Holder, sure bool) {
	if known && r.Held == markHeld && r.Process.fate(s.self) != dead {
		return r.holder(), true
	}
	pid, _ := readLocks().of(p.lock())
	switch {
	case known && r.Held == markHeld && pid == r.Process.PID:
		return r.holder(), true // it died, and its job goes on with the lock it inherited
	case known && r.Held != markFree && (pid == 0 || pid == r.Process.PID || !exists(pid)):
		return r.holder(), false
	}
	return picket.Holder{Host: s.self.Host, PID: pid}, false
}

// answer is the kernel's, to the question whether a file is locked.
type answer int

const (
	unknown answer = iota
	unlocked
	locked
)
