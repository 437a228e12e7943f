package filestore

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/picket-go/picket"
)

// failure is an error of the file system, which names the path, with its meaning and what to do. It had no lasting effect: no lock is left.
type failure struct {
	sentinel, err error
	advice        string
}

func (f *failure) Error() string {
	return fmt.Sprintf("%v: filestore: %s: %s", f.sentinel, printable(strings.ReplaceAll(f.err.Error(), "\n", "; ")), f.advice)
}

// printable escapes what could steer a terminal: a path may hold any byte. The others stay as they are, also backslashes, so that a path can be copied.
func printable(text string) string {
	var b strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		if c := text[:size]; strconv.IsPrint(r) && (r != utf8.RuneError || size > 1) {
			b.WriteString(c)
		} else {
			quoted := strconv.Quote(c)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
		text = text[size:]
	}
	return b.String()
}

func (f *failure) Unwrap() []error { return []error{f.sentinel, f.err} }

// Unsent tells the Locker that there is nothing to undo.
func (*failure) Unsent() bool { return true }

// failed gives a file system's error its meaning: refused if only an operator can cure it, else unavailable.
func failed(err error) error {
	if err == nil {
		return nil
	}
	for _, c := range [...]struct {
		is       error
		sentinel error
		advice   string
	}{
		{fs.ErrPermission, picket.ErrRefused, "make the directory and its files readable and writable for this user, or use another directory"},
		{syscall.EROFS, picket.ErrRefused, "the file system is read-only, use a directory on a writable one"},
		{syscall.ENOTDIR, picket.ErrRefused, "a part of the path is no directory, use another one"},
		{syscall.EISDIR, picket.ErrRefused, "a directory is in the place of a file, remove it"},
		{syscall.ELOOP, picket.ErrRefused, "a symbolic link is in the place of a file, remove it"},
		{syscall.ENAMETOOLONG, picket.ErrRefused, "use a directory with a shorter path"},
		{errors.ErrUnsupported, picket.ErrRefused, "the file system has no locks, use a directory on a local one"},
		{errNotRegular, picket.ErrRefused, "this is no file of picket's, remove it"},
		{errForeign, picket.ErrRefused, "picket overwrites no file of another program: move it away, or use a directory of picket's own"},
		{errNoDirectory, picket.ErrRefused, "use another directory"},
		{syscall.EINVAL, picket.ErrRefused, "the file system does not take such a name, use another directory"},
		{errCollision, picket.ErrRefused, "another key's file is in the place of this key's, remove it if nobody needs it"},
		{errExhausted, picket.ErrRefused, "remove the file once nothing guarded by its token is in use"},
		{syscall.ENOSPC, picket.ErrUnavailable, "free space on the disk"},
		{syscall.EDQUOT, picket.ErrUnavailable, "free space in the disk quota"},
		{syscall.EFBIG, picket.ErrUnavailable, "raise this process's limit of file sizes (ulimit -f)"},
		{syscall.EMFILE, picket.ErrUnavailable, "raise this process's limit of open files (ulimit -n)"},
		{syscall.ENFILE, picket.ErrUnavailable, "raise the machine's limit of open files (fs.file-max)"},
		{syscall.EIO, picket.ErrUnavailable, "check the disk"},
	} {
		if errors.Is(err, c.is) {
			return &failure{c.sentinel, err, c.advice}
		}
	}
	return &failure{picket.ErrUnavailable, err, "try again, and check the directory"}
}

var (
	errCollision   = errors.New("record is of another key")
	errForeign     = errors.New("no record of a lock")
	errExhausted   = errors.New("the last token is the largest there is")
	errNoDirectory = errors.New("the directory cannot be made or takes no files")
)
