package filestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"time"

	"github.com/picket-go/picket"
)

const (
	// glances bounds how often a busy key is looked at until its record tells the present holder: one that has just locked has not written yet.
	glances = 10
	glance  = time.Millisecond
	// makings is how often a directory is made that is missing: once more if somebody removes it meanwhile, and no more, for it may be one that
	// cannot be made, such as /proc/x, where mkdir(2) says ENOENT too.
	makings = 2
)

// Acquire makes one attempt to lock key's file. The same claim again gets the same token as long as its file is in place. After an error nothing is
// left of the attempt.
func (s *Store) Acquire(ctx context.Context, c picket.Claim) (picket.Grant, error) {
	if err := grantable(c); err != nil {
		return picket.Grant{}, err
	}
	end, err := s.turns.begin(ctx, c.Key)
	if err != nil {
		return picket.Grant{}, err
	}
	defer end()
	if s.buried(c) {
		return picket.Grant{}, fmt.Errorf("%w: this claim on %q was undone: draw a new id", picket.ErrRefused, c.Key)
	}
	h, err := s.own(c)
	if errors.Is(err, picket.ErrLost) {
		h, err = s.take(ctx, c)
	}
	if err != nil {
		return picket.Grant{}, err
	}
	return h.grant(), nil
}

func (h *held) grant() picket.Grant {
	return picket.Grant{Token: h.rec.Token, TTL: picket.NoExpiry, Waiters: -1}
}

// take locks the key for c and writes its record.
func (s *Store) take(ctx context.Context, c picket.Claim) (*held, error) {
	p := s.place(c.Key)
	l, err := s.lockKey(ctx, p, c.Key)
	if err != nil {
		return nil, err
	}
	last, known, err := s.readKey(p, c.Key)
	if err == nil {
		err = s.cooling(p, last)
	}
	if _, busy := errors.AsType[*picket.BusyError](err); busy {
		_ = l.unlock()
		return nil, err
	}
	var h *held
	if err == nil {
		h, err = s.record(p, l, c, last)
	}
	if err != nil {
		_ = l.unlock()
		return nil, failed(err)
	}
	s.mu.Lock()
	s.held[c.Key] = h
	s.mu.Unlock()
	if !known {
		s.sweep(ctx)
	}
	return h, nil
}

// lockKey locks the key's file or tells who has it. A key whose record shows no present holder is tried again for a moment: its owner is about to write
// the record, or had the lock only to look at it or to clean up.
func (s *Store) lockKey(ctx context.Context, p place, key string) (*kernelLock, error) {
	for n := 0; ; n++ {
		l, ok, err := s.lockPlace(p)
		for n := 0; n < makings && errors.Is(err, fs.ErrNotExist); n++ {
			if err = s.create(); err == nil {
				l, ok, err = s.lockPlace(p)
			}
		}
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist) {
			err = fmt.Errorf("%w: %w", errNoDirectory, err)
		}
		if err != nil {
			return nil, failed(err)
		}
		if ok {
			return l, nil
		}
		rec, known, err := s.readKey(p, key)
		if err != nil {
			return nil, failed(err)
		}
		h, sure := s.holder(p, rec, known)
		if sure || n == glances {
			return nil, &picket.BusyError{Key: key, Holder: h, Remaining: picket.NoExpiry, Waiters: -1}
		}
		time.Sleep(glance)
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
}

// cooling returns a *BusyError while the MinHold of the last lease goes on. It is called by who has the lock.
func (s *Store) cooling(p place, last record) error {
	now := s.now()
	rest, cut := last.rest(now)
	if rest == 0 {
		return nil
	}
	if cut { // the clock stepped back: nobody waits an hour for ten seconds (DESIGN 3.2)
		last.NotBefore = now.Add(rest)
		if err := s.write(p, last); err != nil {
			return err
		}
	}
	return &picket.BusyError{Key: last.key(), Holder: last.holder(), Remaining: rest, Waiters: -1}
}

// record mints a token for c and writes it down with its holder. It is called by who has the lock.
func (s *Store) record(p place, l *kernelLock, c picket.Claim, last record) (*held, error) {
	now := s.now()
	token, err := s.mint(last.Token, now)
	if errors.Is(err, errExhausted) {
		path := p.json()
		if last.Token != math.MaxInt64 {
			path = place{s.dir, floorName}.json()
		}
		err = &fs.PathError{Op: "mint", Path: path, Err: err}
	}
	if err != nil {
		return nil, err
	}
	h := &held{rec: newRecord(c, token, now, s.self), lock: l, granted: now}
	if err := s.write(p, h.rec); err != nil {
		// It may be in place and only the directory not synced.
		_ = setMark(p, markFree)
		return nil, err
	}
	return h, nil
}

// mint returns a token above last and above those of keys that were forgotten, so a clock that stepped back repeats none (DESIGN 3.7).
func (s *Store) mint(last int64, now time.Time) (int64, error) {
	floor, err := s.floor()
	if err != nil {
		return 0, err
	}
	highest := max(last, floor)
	if highest == math.MaxInt64 {
		return 0, errExhausted
	}
	return max(highest+1, now.UnixMicro()), nil
}
