package filestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/picket-go/picket"
)

// maxKey is the longest key, in bytes (DESIGN 2).
const maxKey = 512

// Store keeps leases as kernel locks in one directory. Its methods are safe for concurrent use. It starts no goroutine and needs no closing: a lease
// that is not released ends with the process.
type Store struct {
	dir         string
	acceptsNet  bool
	networkType func(path string) (string, error)
	now         func() time.Time
	step        func(name, path string) error // called before each step that a crash or a full disk may end; an error of it is the step's
	self        process

	turns turns
	mu    sync.Mutex
	held  map[string]*held // by key
	gone  tombs
}

var _ interface {
	picket.Store
	picket.Lister
	picket.Reissuer
} = (*Store)(nil)

// Option is a setting of New.
type Option func(*Store)

// WithNetworkFS accepts a directory on NFS, SMB and the like. Whether its locks exclude other machines is then the file system's and your promise;
// Inspect cannot see those of other machines and believes their records. Default: refused on Linux, not recognised elsewhere.
func WithNetworkFS() Option { return func(s *Store) { s.acceptsNet = true } }

// New returns a Store in dir, which the first Acquire creates, with mode 0700. It returns ErrInvalid if dir is empty or a file, and ErrRefused if dir
// is on a network file system.
func New(dir string, opts ...Option) (*Store, error) {
	s := &Store{
		networkType: networkType,
		now:         time.Now,
		step:        func(string, string) error { return nil },
		self:        self(),
		held:        make(map[string]*held),
	}
	for _, o := range opts {
		o(s)
	}
	if dir == "" {
		return nil, fmt.Errorf("%w: filestore: no directory given, name one such as /var/lib/picket", picket.ErrInvalid)
	}
	var err error
	if s.dir, err = filepath.Abs(dir); err != nil {
		return nil, fmt.Errorf("%w: filestore: directory %q: %w", picket.ErrInvalid, dir, err)
	}
	return s, s.usable()
}

// usable looks at the directory, or at the nearest one above it that is there.
func (s *Store) usable() error {
	for at := s.dir; ; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		switch {
		case errors.Is(err, fs.ErrNotExist) && at != filepath.Dir(at):
			continue
		case err != nil:
			return failed(err)
		case !info.IsDir():
			return fmt.Errorf("%w: filestore: %q is not a directory, use another path", picket.ErrInvalid, at)
		case s.acceptsNet:
			return nil
		}
		kind, err := s.networkType(at)
		if err != nil {
			return failed(err)
		}
		if kind != "" {
			return fmt.Errorf("%w: filestore: %q is on %s, where a lock may not reach other machines: use a directory on a local disk, or accept it (WithNetworkFS; in a file: URL ?network-fs)",
				picket.ErrRefused, s.dir, kind)
		}
		return nil
	}
}

// create makes the directory. Its entry is synced: the last tokens are in it.
func (s *Store) create() error {
	if err := s.step("mkdir", s.dir); err != nil {
		return err
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	if err := syncDir(filepath.Dir(s.dir)); !errors.Is(err, fs.ErrPermission) { // it may be writable only, as a drop box is
		return err
	}
	return nil
}

func named(c picket.Claim) error {
	if c.ID == "" {
		return fmt.Errorf("%w: the claim on %q has no id", picket.ErrInvalid, c.Key)
	}
	return usual(c.Key)
}

// maxHolder bounds what a claim says of its holder, so that a record stays below maxRecord when JSON has escaped each byte with six.
const maxHolder = 8 << 10

// usual refuses a key that is empty or too long.
func usual(key string) error {
	if key == "" || len(key) > maxKey {
		return fmt.Errorf("%w: key %.40q has %d bytes, not 1 to %d", picket.ErrInvalid, key, len(key), maxKey)
	}
	return nil
}

// grantable refuses what kernel locks cannot do. TTL, Queue and Recheck are nothing to them.
func grantable(c picket.Claim) error {
	switch {
	case c.Weight != 0 || c.Capacity != 0:
		return fmt.Errorf("%w: weight %d of %d on %q: files grant exclusive leases only", picket.ErrUnsupported, c.Weight, c.Capacity, c.Key)
	case c.LockDelay != 0:
		return fmt.Errorf("%w: LockDelay %s on %q: a lease on files ends with its process, without delay", picket.ErrUnsupported, c.LockDelay, c.Key)
	case len(c.ID)+len(c.Holder.Host)+len(c.Holder.Label) > maxHolder:
		return fmt.Errorf("%w: id, host and label of the claim on %.40q have together more than %d bytes", picket.ErrInvalid, c.Key, maxHolder)
	case c.MinHold < 0:
		return fmt.Errorf("%w: MinHold %s on %q is negative", picket.ErrInvalid, c.MinHold, c.Key)
	}
	return named(c)
}

// Renew reports whether each claim still has its lock; there is nothing to prolong. The reason of a loss is deleted or stolen: somebody removed or
// replaced the file.
func (s *Store) Renew(ctx context.Context, cs []picket.Claim, report func(i int, err error)) {
	for i, c := range cs {
		report(i, s.renew(ctx, c))
	}
}

func (s *Store) renew(ctx context.Context, c picket.Claim) error {
	end, err := s.turns.begin(ctx, c.Key)
	if err != nil {
		return err
	}
	defer end()
	_, err = s.own(c)
	return err
}

// File returns the locked descriptor of a key that this Store holds. Give it to a child in exec.Cmd.ExtraFiles and the kernel frees the lock when the
// last process that has it is gone; Release then no longer frees it for them. The file belongs to the Store: do not close it. It returns a *LostError
// if the key is not held here and ErrUnsupported where locks cannot be inherited, as on Windows.
func (s *Store) File(key string) (*os.File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.held[key]
	if h == nil {
		return nil, &picket.LostError{Key: key, At: s.now()}
	}
	f, err := h.lock.file()
	h.passed = h.passed || err == nil
	return f, err
}
