package filestore

import (
	"errors"
	"io/fs"
	"os"
)

var errNotRegular = errors.New("not a regular file")

// openRegular opens a file of the Store. Whatever else is in its place is refused: opening a FIFO would wait for its other end, and a symbolic link
// may lead to anybody's file.
func openRegular(path string, how int) (*os.File, error) {
	f, err := os.OpenFile(path, how|direct, 0o600)
	if err != nil {
		return nil, blame(path, err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = notRegular(path)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// blame returns err, or what explains it: that something else is in the place of the file. It has many errnos, which differ between systems.
func blame(path string, err error) error {
	if err != nil && isStranger(path) {
		return notRegular(path)
	}
	return err
}

func isStranger(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && !info.Mode().IsRegular()
}

func notRegular(path string) error {
	return &fs.PathError{Op: "open", Path: path, Err: errNotRegular}
}
