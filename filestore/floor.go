package filestore

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

const (
	// idle is how long the files of a key are kept after its last use.
	idle = 24 * time.Hour
	// removals and looks bound one sweep.
	removals = 4
	looks    = 4096
)

// floor returns the largest token of all keys whose files were removed.
func (s *Store) floor() (int64, error) {
	r, _, err := s.read(place{s.dir, floorName})
	return r.Token, err
}

// raise makes floor at least token, if nobody else is raising it.
func (s *Store) raise(token int64) bool {
	p := place{s.dir, floorName}
	l, ok, err := s.lockPlace(p)
	if err != nil || !ok {
		return false
	}
	defer l.unlock()
	r, _, err := s.read(p)
	if err != nil {
		return false
	}
	if token <= r.Token {
		return true
	}
	return s.write(p, record{Key: floorName, Token: token}) == nil
}

// sweep removes the files of a few keys that have been free for long. Only a new key calls it, so a directory cannot grow without being swept and
// the usual path pays nothing. It is not urgent: whatever fails is left to the next.
func (s *Store) sweep(ctx context.Context) {
	if runtime.GOOS == "windows" || ctx.Err() != nil { // an open file cannot be unlinked there
		return
	}
	var old []place
	var highest int64
	for _, p := range s.oldest() {
		// A damaged record has lost its token: whatever was granted is not above the time.
		token := s.now().UnixMicro()
		if r, known, err := s.read(p); err != nil {
			continue
		} else if known {
			token = r.Token
		}
		if token > tokenMax { // nobody's grant; as a floor it would end all keys
			continue
		}
		old, highest = append(old, p), max(highest, token)
	}
	// The floor is raised before any lock is taken, so each is taken for a moment only: somebody may come for it.
	if len(old) == 0 || !s.raise(highest) {
		return
	}
	for _, p := range old {
		s.forget(p, highest)
	}
}

// oldest returns up to removals names with a file that nobody has written for long.
func (s *Store) oldest() []place {
	d, err := os.Open(s.dir)
	if err != nil {
		return nil
	}
	defer d.Close()
	names, _ := d.Readdirnames(looks)
	var found []place
	for _, file := range names {
		p, ok := s.placeOf(file)
		if ok && p.name != floorName && !slices.Contains(found, p) && s.isOld(p) {
			if found = append(found, p); len(found) == removals {
				break
			}
		}
	}
	return found
}

// placeOf is the reverse of a place's paths.
func (s *Store) placeOf(file string) (place, bool) {
	for _, suffix := range [...]string{lockSuffix, jsonSuffix, tempSuffix} {
		if name, ok := strings.CutSuffix(file, suffix); ok && name != "" {
			return place{s.dir, name}, true
		}
	}
	return place{}, false
}

// isOld reports whether all files at p are picket's and none was written within idle.
func (s *Store) isOld(p place) bool {
	before := s.now().Add(-idle)
	for _, path := range [...]string{p.lock(), p.json(), p.temp()} {
		info, err := os.Lstat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil || info.ModTime().After(before), !info.Mode().IsRegular() || info.Mode().Perm()&^0o600 != 0:
			return false
		case path == p.lock():
			if info.Size() != 0 {
				return false
			}
		default:
			if _, err := load(path); err != nil {
				return false
			}
		}
	}
	return true
}

// forget removes the files at p if they are still old and floor stands for the token in them. The lock's file goes last: until then nobody else can
// make a record here.
func (s *Store) forget(p place, floor int64) {
	l, ok, err := s.lockPlace(p)
	if err != nil || !ok {
		return
	}
	defer l.unlock()
	r, known, err := s.read(p)
	rest, _ := r.rest(s.now())
	if err != nil || known && (r.Token > floor || rest > 0) || !s.isOld(p) {
		return
	}
	for _, path := range [...]string{p.temp(), p.json(), p.lock()} {
		if s.step("remove", path) != nil {
			return
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return
		}
	}
}
