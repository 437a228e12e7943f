//go:build !(darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd)

package filestore

import (
	"fmt"
	"io/fs"
	"os"
	"runtime"

	"github.com/gofrs/flock"
	"github.com/picket-go/picket"
)

// kernelLock is a locked file: LockFileEx on Windows, fcntl elsewhere. No other process can inherit it.
type kernelLock struct{ f *flock.Flock }

// tryLock opens the file at path, which it creates, and locks it if nobody has it locked.
func tryLock(path string) (*kernelLock, bool, error) {
	if isStranger(path) {
		return nil, false, notRegular(path)
	}
	f := flock.New(path, flock.SetFlag(os.O_CREATE|os.O_RDWR), flock.SetPermissions(0o600))
	ok, err := f.TryLock()
	if err != nil || !ok {
		return nil, false, err
	}
	return &kernelLock{f}, true, nil
}

func (l *kernelLock) stat() (fs.FileInfo, error) { return l.f.Stat() }

func (l *kernelLock) file() (*os.File, error) {
	return nil, fmt.Errorf("%w: the lock on %q cannot be passed to a child on %s", picket.ErrUnsupported, l.f.Path(), runtime.GOOS)
}

func (l *kernelLock) unlock() error { return l.f.Close() }

func (l *kernelLock) leave() error { return l.f.Close() }
