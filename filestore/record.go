package filestore

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"
	"unicode/utf8"

	"github.com/picket-go/picket"
)

// mark is the one byte of a record that is changed in place: one byte is never half-written, and a release costs no fsync.
type mark int

const (
	markFree   mark = iota // released
	markHeld               // held, or its process has crashed
	markPassed             // released, but processes that inherited the descriptor may go on
)

// markAt is where the mark stands in a file: the record begins {"held":1,
const markAt = int64(len(`{"held":`))

// maxRecord bounds what is read: a record has a key, a host name and a label.
const maxRecord = 1 << 16

// record is what NAME.json says. Who has the lock writes it; anybody reads it.
type record struct {
	Held      mark          `json:"held"` // stays first: see markAt
	Key       string        `json:"key"`
	RawKey    []byte        `json:"raw_key,omitempty"` // the key if it is not UTF-8, which JSON cannot keep
	Token     int64         `json:"token"`
	Holder    recordHolder  `json:"holder"`
	Process   process       `json:"process"`
	NotBefore time.Time     `json:"not_before,omitzero"`
	MinHold   time.Duration `json:"min_hold_ns,omitempty"` // the most that NotBefore may be ahead
}

type recordHolder struct {
	ID    string    `json:"id,omitempty"`
	Host  string    `json:"host,omitempty"`
	PID   int       `json:"pid,omitempty"`
	Since time.Time `json:"since,omitzero"`
	Label string    `json:"label,omitempty"`
}

func newRecord(c picket.Claim, token int64, now time.Time, by process) record {
	h := c.Holder
	r := record{
		Held: markHeld, Key: c.Key, Token: token, Process: by,
		Holder: recordHolder{ID: c.ID, Host: h.Host, PID: h.PID, Since: now.UTC().Truncate(time.Millisecond), Label: h.Label},
	}
	if !utf8.ValidString(c.Key) {
		r.RawKey = []byte(c.Key)
	}
	return r
}

func (r record) key() string {
	if r.RawKey != nil {
		return string(r.RawKey)
	}
	return r.Key
}

func (r record) holder() picket.Holder {
	h := r.Holder
	return picket.Holder{ID: h.ID, Host: h.Host, PID: h.PID, Since: h.Since, Label: h.Label}
}

// rest is how much of its MinHold r still has, and whether NotBefore says more: then the clock stepped back, or NotBefore is nobody's writing.
func (r record) rest(now time.Time) (left time.Duration, cut bool) {
	ahead := r.NotBefore.Sub(now)
	return max(min(ahead, r.MinHold), 0), ahead > r.MinHold
}

// kept is r after a release before its MinHold was over. It has no claim id, so no late call matches it (DESIGN 3.5).
func (r record) kept(m mark, until time.Time, most time.Duration) record {
	r.Held, r.NotBefore, r.MinHold = m, until.UTC(), most
	r.Holder.ID = ""
	return r
}

// recordBegin is how each record begins.
const recordBegin = `{"held":`

// ours reports whether text may be a record's: whole, cut by a crash, or emptied by a loss of power. Whatever else is in its place is another program's.
func ours(text []byte) bool {
	n := min(len(text), len(recordBegin))
	return len(text) <= maxRecord && (string(text[:n]) == recordBegin[:n] || len(bytes.Trim(text, "\x00")) == 0)
}

// load returns the text of a record's file, "" if there is none. The error is errForeign if it is another program's.
func load(path string) ([]byte, error) {
	f, err := openRegular(path, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxRecord+1))
	if err == nil && !ours(text) {
		err = &fs.PathError{Op: "read", Path: path, Err: errForeign}
	}
	return text, err
}

// read returns the record at p. One that is missing or damaged (by a loss of power) is not known and no error: it must not block the key. A file of another
// program is an error: it must not be overwritten.
func (s *Store) read(p place) (record, bool, error) {
	text, err := load(p.json())
	if err != nil {
		return record{}, false, err
	}
	var r record
	if whole := json.Unmarshal(text, &r) == nil; !whole || r.Key == "" || r.Token <= 0 {
		return record{}, false, nil
	}
	return r, true, nil
}

// readKey is read for a key whose name could be another's if two hashes were equal.
func (s *Store) readKey(p place, key string) (record, bool, error) {
	r, known, err := s.read(p)
	if known && r.key() != key {
		return record{}, false, &fs.PathError{Op: "read", Path: p.json(), Err: errCollision}
	}
	return r, known, err
}

// write puts r at p and returns when it is on the disk. It is called by who has the lock, so the temporary file is nobody else's.
func (s *Store) write(p place, r record) error {
	text, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("record of %q: %w", r.key(), err)
	}
	err = s.writeTemp(p, append(text, '\n'))
	if err == nil {
		err = s.step("rename", p.json())
	}
	if err == nil {
		err = blame(p.json(), replace(p.temp(), p.json()))
	}
	if err != nil {
		if !errors.Is(err, errForeign) {
			_ = os.Remove(p.temp())
		}
		return err
	}
	if err := s.step("syncdir", p.dir); err != nil {
		return err
	}
	if err := syncDir(p.dir); err != nil {
		return err
	}
	return s.step("written", p.json())
}

func (s *Store) writeTemp(p place, text []byte) error {
	if err := s.step("temp", p.temp()); err != nil {
		return err
	}
	f, err := createTemp(p.temp())
	if err != nil {
		return err
	}
	if err = s.step("write", p.temp()); err == nil {
		_, err = f.Write(text)
	}
	if err == nil {
		err = s.step("sync", p.temp())
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// createTemp makes the file anew: what a crash left is removed, and a symbolic link is never followed.
func createTemp(path string) (*os.File, error) {
	const how = os.O_WRONLY | os.O_CREATE | os.O_EXCL
	f, err := os.OpenFile(path, how, 0o600)
	if !errors.Is(err, fs.ErrExist) {
		return f, err
	}
	if _, err := load(path); errors.Is(err, errForeign) {
		return nil, err
	}
	if err := os.Remove(path); err != nil {
		return nil, blame(path, err)
	}
	return os.OpenFile(path, how, 0o600)
}

// setMark changes the mark of the record at p. It is called by who has the lock.
func setMark(p place, m mark) error {
	f, err := openRegular(p.json(), os.O_WRONLY)
	if err != nil {
		return err
	}
	_, err = f.WriteAt([]byte{'0' + byte(m)}, markAt)
	return errors.Join(err, f.Close())
}
