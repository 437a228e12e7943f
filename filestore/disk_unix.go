//go:build !windows

package filestore

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// replace renames temp to path in one act.
func replace(temp, path string) error { return os.Rename(temp, path) }

// syncDir makes a rename last. Some file systems cannot and say EINVAL: then it lasts as long as they make it.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) || errors.Is(err, fs.ErrInvalid) {
		err = nil
	}
	return errors.Join(err, d.Close())
}
