package filestore

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

const (
	lockSuffix = ".lock"
	jsonSuffix = ".json"
	tempSuffix = ".tmp"
)

// place is where the files of one name are.
type place struct{ dir, name string }

func (p place) lock() string { return filepath.Join(p.dir, p.name+lockSuffix) }
func (p place) json() string { return filepath.Join(p.dir, p.name+jsonSuffix) }
func (p place) temp() string { return filepath.Join(p.dir, p.name+tempSuffix) }

func (s *Store) place(key string) place { return place{s.dir, encode(key)} }

// reopenings bounds how often a lock file may be replaced under our hands in one attempt: each time its owner was cleaning up.
const reopenings = 100

// lockPlace tries to lock the file at p, which it creates. It answers false if another descriptor has the lock.
func (s *Store) lockPlace(p place) (*kernelLock, bool, error) {
	for range reopenings {
		if err := s.step("open", p.lock()); err != nil {
			return nil, false, err
		}
		l, ok, err := tryLock(p.lock())
		if err != nil || !ok {
			return nil, false, err
		}
		err = s.step("locked", p.lock())
		if err == nil {
			err = inPlace(l, p)
		}
		if err == nil {
			return l, true, nil
		}
		_ = l.unlock()
		if !errors.Is(err, errDeleted) && !errors.Is(err, errReplaced) {
			return nil, false, err
		}
	}
	return nil, false, &fs.PathError{Op: "lock", Path: p.lock(), Err: errReplaced}
}

var (
	errDeleted  = errors.New("file was deleted")
	errReplaced = errors.New("file was replaced")
)

// inPlace returns nil if the locked file is the one that others find at its path: a lock on an unlinked file excludes nobody.
func inPlace(l *kernelLock, p place) error {
	ours, err := l.stat()
	if errors.Is(err, fs.ErrClosed) {
		return errDeleted // by a user of File: the lock went with the descriptor
	}
	if err != nil {
		return err
	}
	theirs, err := os.Stat(p.lock())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errDeleted
	case err != nil:
		return err
	case !os.SameFile(ours, theirs):
		return errReplaced
	}
	return nil
}
