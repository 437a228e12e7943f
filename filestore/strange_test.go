//go:build unix

package filestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/picket-go/picket"
)

// strangers are what may be in the place of a file.
var strangers = map[string]func(path string) error{
	"fifo":      func(path string) error { return syscall.Mkfifo(path, 0o600) },
	"directory": func(path string) error { return os.MkdirAll(path+"/full", 0o700) },
	"link":      func(path string) error { return os.Symlink("/dev/zero", path) },
	"socket":    socketAt,
}

func socketAt(path string) error {
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	return errors.Join(syscall.Bind(fd, &syscall.SockaddrUnix{Name: path}), syscall.Close(fd))
}

// soon fails the test if do hangs in opening the FIFO at path, which it then ends.
func soon(t *testing.T, path string, do func()) {
	t.Helper()
	done := make(chan bool)
	go func() {
		defer close(done)
		do()
	}()
	select {
	case <-done:
	case <-time.After(5 * time.Second):
		t.Error("hangs")
		f, err := os.OpenFile(path, os.O_RDWR|syscall.O_NONBLOCK, 0)
		if err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
		<-done
	}
}

func TestWhatIsNoRegularFileIsRefusedAndHangsNobody(t *testing.T) {
	for kind, put := range strangers {
		for _, name := range []string{"k.lock", "k.json", floorName + jsonSuffix} {
			t.Run(kind+"/"+name, func(t *testing.T) {
				t.Chdir(t.TempDir()) // a socket's path is short
				if err := put(name); err != nil {
					t.Fatal(err)
				}
				dir, err := os.Getwd()
				if err != nil {
					t.Fatal(err)
				}
				s := open(t, dir)
				path := filepath.Join(dir, name)
				refused := func(what string, err error) {
					t.Helper()
					if err == nil || !errors.Is(err, picket.ErrRefused) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "remove it") {
						t.Errorf("%s = %v, want refused, the path and what to do", what, err)
					}
				}
				soon(t, path, func() {
					_, err := s.Acquire(t.Context(), claim("k"))
					refused("Acquire", err)
				})
				soon(t, path, func() {
					if _, err := s.Inspect(t.Context(), "k"); name == "k.json" {
						refused("Inspect", err)
					}
				})
				soon(t, path, func() {
					for _, err := range s.List(t.Context(), "") {
						refused("List", err)
					}
				})
			})
		}
	}
}

// A mark is never written to what took the record's place; a release with MinHold says that it cannot be.
func TestAReleaseNeitherHangsNorWritesToAStranger(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	path, victim := s.place("k").json(), filepath.Join(dir, "victim")
	for _, kind := range []string{"fifo", "directory"} {
		c := claim("k")
		s.grant(c)
		_ = os.Remove(path)
		if err := strangers[kind](path); err != nil {
			t.Fatal(err)
		}
		if kind == "directory" {
			c.MinHold = time.Hour
			if err := s.Release(t.Context(), c); !errors.Is(err, picket.ErrRefused) {
				t.Errorf("Release = %v, want refused", err)
			}
			c.MinHold = 0
		}
		soon(t, path, func() { s.release(c) })
		_ = os.RemoveAll(path)
	}
	const precious = "precious as it is"
	if err := os.WriteFile(victim, []byte(precious), 0o600); err != nil {
		t.Fatal(err)
	}
	c := claim("k")
	s.grant(c)
	_ = os.Remove(path)
	if err := os.Symlink(victim, path); err != nil {
		t.Fatal(err)
	}
	s.release(c)
	if text, _ := os.ReadFile(victim); string(text) != precious {
		t.Errorf("the file behind the link is now %q", text)
	}
}

func TestADirectoryInThePlaceOfATemporaryFileIsRefused(t *testing.T) {
	s := open(t, t.TempDir())
	if err := os.MkdirAll(s.place("k").temp()+"/full", 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := s.Acquire(t.Context(), claim("k"))
	if !errors.Is(err, picket.ErrRefused) || !strings.Contains(err.Error(), s.place("k").temp()) {
		t.Errorf("Acquire = %v, want refused and the path", err)
	}
}

func TestStrangersDoNotKeepCleanUpFromOthers(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	for i := range 20 {
		for _, suffix := range []string{jsonSuffix, lockSuffix, tempSuffix} {
			if err := os.MkdirAll(filepath.Join(dir, fmt.Sprint(suffix[1:], i, suffix), "full"), 0o700); err != nil {
				t.Fatal(err)
			}
		}
	}
	c := claim("old")
	s.grant(c)
	s.release(c)
	age(t, dir)
	for _, key := range []string{"new-1", "new-2"} {
		s.grant(claim(key))
	}
	if st := s.state("old", picket.StatusFree); st.Token != 0 {
		t.Errorf("not forgotten: %+v", st)
	}
}

func TestListYieldsWhatIsReadableAndEachEntryThatIsNot(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	for _, key := range []string{"b", "m", "z"} {
		s.grant(claim(key))
	}
	want := map[string]bool{}
	for name, put := range map[string]func(string) error{"a.json": strangers["directory"], "n.json": strangers["fifo"], "~.json": strangers["link"]} {
		path := filepath.Join(dir, name)
		if err := put(path); err != nil {
			t.Fatal(err)
		}
		want[path] = true
	}
	var keys []string
	soon(t, filepath.Join(dir, "n.json"), func() {
		for st, err := range s.List(t.Context(), "") {
			if err == nil {
				keys = append(keys, st.Key)
				continue
			}
			path, ok := errors.AsType[*fs.PathError](err)
			if !ok || !want[path.Path] || st != (picket.Status{}) || !errors.Is(err, picket.ErrRefused) {
				t.Errorf("List yields %+v, %v", st, err)
				continue
			}
			delete(want, path.Path)
		}
	})
	if !slices.Equal(keys, []string{"b", "m", "z"}) || len(want) != 0 {
		t.Errorf("List yields %q and not %v", keys, want)
	}
	n := 0
	for range s.List(t.Context(), "") {
		if n++; n == 4 {
			break // at the first error: nothing is yielded after it
		}
	}
	if n != 4 {
		t.Errorf("%d entries before the consumer stopped", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	n = 0
	for _, err := range s.List(ctx, "") {
		if n++; !errors.Is(err, context.Canceled) {
			t.Errorf("List = %v after its ctx ended", err)
		}
	}
	if n != 1 {
		t.Errorf("%d entries after ctx ended, want its error", n)
	}
}

func TestADirectoryThatCannotBeMadeIsRefused(t *testing.T) {
	base := t.TempDir()
	if err := os.Symlink(base+"/nowhere", base+"/dangling"); err != nil {
		t.Fatal(err)
	}
	dirs := []string{base + "/dangling"}
	if _, err := os.Stat("/proc/self/stat"); err == nil {
		dirs = append(dirs, "/proc/xx", "/proc/xx/yy", "/proc")
	}
	for _, dir := range dirs {
		_, err := open(t, dir).Acquire(t.Context(), claim("k"))
		if !errors.Is(err, picket.ErrRefused) || !strings.Contains(err.Error(), strings.TrimSuffix(dir, "/yy")) {
			t.Errorf("Acquire in %q = %v, want refused", dir, err)
		}
	}
	if _, err := New("/tmp/a\x00b"); !errors.Is(err, picket.ErrRefused) {
		t.Errorf("New = %v, want refused", err)
	}
}

func TestADirectoryThatIsRemovedMeanwhileIsMadeAgain(t *testing.T) {
	for _, step := range []string{"mkdir", "open"} {
		dir := filepath.Join(t.TempDir(), "locks")
		made, removed := false, false
		s := open(t, dir, withStep(func(name, path string) error {
			switch {
			case name == "mkdir" && step == "mkdir" && !removed:
				removed = true
				return &fs.PathError{Op: name, Path: path, Err: syscall.ENOENT} // what MkdirAll says when its parent goes
			case name == "mkdir":
				made = true
			case name == "open" && made && !removed:
				removed = true
				return os.Remove(dir)
			}
			return nil
		}))
		s.grant(claim("k"))
		if !removed {
			t.Errorf("%s: nothing was removed", step)
		}
	}
}

func TestPathsInMessagesCannotSteerATerminal(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a\x1b[31m\nb\x9b\u202eü")
	s := open(t, dir)
	s.grant(claim("k"))
	if err := os.Mkdir(s.place("x").json(), 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := s.Inspect(t.Context(), "x")
	if err == nil {
		t.Fatal("no error")
	}
	text := err.Error()
	if strings.ContainsAny(text, "\x1b\n\u202e") || !utf8.ValidString(text) || !strings.Contains(text, `a\x1b[31m`) || !strings.Contains(text, "ü") {
		t.Errorf("message %q", text)
	}
	if path, ok := errors.AsType[*fs.PathError](err); !ok || path.Path != s.place("x").json() {
		t.Errorf("the path itself is %+v", path)
	}
}

func TestARestWithoutAMostIsNone(t *testing.T) {
	for _, least := range []string{"", `,"min_hold_ns":-5`} {
		s := open(t, t.TempDir())
		text := `{"held":0,"key":"k","token":7,"not_before":"2999-01-01T00:00:00Z"` + least + `}`
		if err := os.WriteFile(s.place("k").json(), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s.state("k", picket.StatusFree)
		s.grant(claim("k"))
	}
}
