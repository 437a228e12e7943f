//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package filestore

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// kernelLock is a locked descriptor. It does not use gofrs/flock, which keeps its descriptor to itself: a job must inherit it (DESIGN 4.3).
type kernelLock struct{ f *os.File }

// tryLock opens the file at path, which it creates, and locks it if nobody has it locked. Each call has its own open file description, so two of one
// process exclude each other too.
func tryLock(path string) (*kernelLock, bool, error) {
	// Write access is what NFS wants for an exclusive lock (flock(2)).
	f, err := openRegular(path, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, false, err
	}
	l := &kernelLock{f}
	err = l.flock(unix.LOCK_EX | unix.LOCK_NB)
	if err == nil {
		return l, true, nil
	}
	_ = f.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, false, nil
	}
	return nil, false, &fs.PathError{Op: "flock", Path: path, Err: err}
}

func (l *kernelLock) flock(how int) error {
	for {
		if err := unix.Flock(int(l.f.Fd()), how); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func (l *kernelLock) stat() (fs.FileInfo, error) { return l.f.Stat() }

func (l *kernelLock) file() (*os.File, error) { return l.f, nil }

// unlock frees the lock for every process that has the descriptor: a fork that has not come to its exec would keep it for a moment.
func (l *kernelLock) unlock() error { return errors.Join(l.flock(unix.LOCK_UN), l.f.Close()) }

// leave closes our descriptor only: the kernel frees the lock when the last process that has one is gone.
func (l *kernelLock) leave() error { return l.f.Close() }
