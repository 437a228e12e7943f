//go:build unix

package filestore

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/picket-go/picket"
)

func TestAFailedAcquireSaysWhatToDoAndLeavesNothing(t *testing.T) {
	for _, f := range []struct {
		errno  syscall.Errno
		want   error
		advice string
	}{
		{syscall.EACCES, picket.ErrRefused, "writable"},
		{syscall.EROFS, picket.ErrRefused, "read-only"},
		{syscall.ENOSPC, picket.ErrUnavailable, "free space"},
		{syscall.EMFILE, picket.ErrUnavailable, "ulimit"},
		{syscall.EIO, picket.ErrUnavailable, "disk"},
	} {
		for _, step := range []string{"mkdir", "open", "locked", "temp", "write", "sync", "rename", "syncdir"} {
			t.Run(f.errno.Error()+"/"+step, func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "locks")
				broken := true
				s := open(t, dir, withStep(func(name, path string) error {
					if broken && name == step {
						return &fs.PathError{Op: name, Path: path, Err: f.errno}
					}
					return nil
				}))
				c := claim("k")
				g, err := s.Acquire(t.Context(), c)
				unsent, ok := errors.AsType[interface {
					error
					Unsent() bool
				}](err)
				if !errors.Is(err, f.want) || !errors.Is(err, f.errno) || !ok || !unsent.Unsent() {
					t.Fatalf("Acquire = %+v, %v, want %v", g, err, f.want)
				}
				if text := err.Error(); !strings.Contains(text, dir) || !strings.Contains(text, f.advice) || strings.Contains(text, "\n") {
					t.Errorf("message %q, want the path and %q", text, f.advice)
				}
				if err := s.renewal(c); !errors.Is(err, picket.ErrLost) {
					t.Errorf("Renew = %v: the claim is left", err)
				}
				if temps, _ := filepath.Glob(dir + "/*.tmp"); temps != nil {
					t.Errorf("left behind: %q", temps)
				}
				if r, known, err := s.read(s.place("k")); known && r.Held != markFree || err != nil {
					t.Errorf("the record says held: %+v, %v", r, err) // which counts where the kernel does not list locks
				}
				other := open(t, dir)
				other.state("k", picket.StatusFree)
				other.grant(claim("k"))
				broken = false
				s.busy("k")
			})
		}
	}
}

func TestAMinHoldThatCannotBeWrittenKeepsTheLease(t *testing.T) {
	full := false
	dir := t.TempDir()
	s := open(t, dir, withStep(func(name, path string) error {
		if full && name == "write" {
			return &fs.PathError{Op: name, Path: path, Err: syscall.ENOSPC}
		}
		return nil
	}))
	c := claim("k")
	c.MinHold = time.Hour
	s.grant(c)
	full = true
	if err := s.Release(t.Context(), c); !errors.Is(err, picket.ErrUnavailable) {
		t.Fatalf("Release = %v", err)
	}
	s.state("k", picket.StatusHeld)
	full = false
	s.release(c)
	s.state("k", picket.StatusCooling)
}

func TestAReleaseNeedsNoSpace(t *testing.T) {
	full := false
	s := open(t, t.TempDir(), withStep(func(name, path string) error {
		if full {
			return &fs.PathError{Op: name, Path: path, Err: syscall.ENOSPC}
		}
		return nil
	}))
	c := claim("k")
	s.grant(c)
	full = true
	s.release(c)
	s.state("k", picket.StatusFree)
}

func TestADamagedRecordBlocksNobody(t *testing.T) {
	for name, text := range map[string]string{
		"empty": "", "cut": `{"held":1,"key":"k","tok`, "zeros": strings.Repeat("\x00", 200), "token": `{"held":1,"key":"k","token":-5}`,
		"long": recordBegin + strings.Repeat("x", maxRecord/2), "number": `{"held":1,"key":"k","token":1e40}`,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir)
			// The clock is behind the floor: only the floor can keep the token from going back.
			floor := time.Now().Add(time.Hour).UnixMicro()
			if !s.raise(floor) {
				t.Fatal("floor was not raised")
			}
			if err := os.WriteFile(s.place("k").json(), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			s.state("k", picket.StatusFree)
			for _, err := range s.List(t.Context(), "") {
				t.Errorf("List yields %v", err)
			}
			c := claim("k")
			if g := s.grant(c); g.Token <= floor {
				t.Errorf("token %d, floor %d", g.Token, floor)
			}
			s.state("k", picket.StatusHeld)
			// Damaged while held: the lock is the kernel's.
			if err := os.WriteFile(s.place("k").json(), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if b := s.busy("k"); b.Holder.ID == c.ID || b.Holder.Host == "" {
				t.Errorf("busy by %+v", b.Holder)
			}
			s.release(c)
		})
	}
}

func TestTheLargestTokenIsTheLast(t *testing.T) {
	s := open(t, t.TempDir())
	text := `{"held":0,"key":"k","token":9223372036854775807}`
	if err := os.WriteFile(s.place("k").json(), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Acquire(t.Context(), claim("k")); !errors.Is(err, picket.ErrRefused) {
		t.Errorf("Acquire = %v, want refused", err)
	}
	s.state("k", picket.StatusFree)
}

func TestAnotherKeysRecordUnderThisNameIsRefused(t *testing.T) {
	s := open(t, t.TempDir())
	c := claim("other")
	s.grant(c)
	s.release(c)
	if err := os.Rename(s.place("other").json(), s.place("k").json()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Acquire(t.Context(), claim("k")); !errors.Is(err, picket.ErrRefused) {
		t.Errorf("Acquire = %v, want refused", err)
	}
	if _, err := s.Inspect(t.Context(), "k"); !errors.Is(err, picket.ErrRefused) {
		t.Errorf("Inspect = %v, want refused", err)
	}
}

// The holder before has crashed or released, and the new one has locked but not written: its text must not be shown as the present holder's.
func TestTheTextOfTheHolderBeforeIsNotShown(t *testing.T) {
	s := open(t, t.TempDir())
	before := claim("k")
	s.grant(before)
	s.release(before)
	l, ok, err := s.lockPlace(s.place("k"))
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	defer l.unlock()
	if b := s.busy("k"); b.Holder.ID == before.ID || b.Holder.Label != "" {
		t.Errorf("busy by %+v, who has released", b.Holder)
	}
}

func TestARemovedOrReplacedFileIsALoss(t *testing.T) {
	for reason, do := range map[picket.Reason]func(s files){
		picket.ReasonDeleted: func(s files) {
			_ = os.Remove(s.place("k").lock())
			s.state("k", picket.StatusFree)
			_ = os.RemoveAll(s.dir)
		},
		picket.ReasonStolen: func(s files) {
			_ = os.Remove(s.place("k").lock())
			open(s.t, s.dir).grant(claim("k"))
		},
	} {
		s := open(t, filepath.Join(t.TempDir(), "locks"))
		c := claim("k")
		g := s.grant(c)
		do(s)
		lost, ok := errors.AsType[*picket.LostError](s.renewal(c))
		if !ok || lost.Reason != reason || lost.Token != g.Token || lost.Key != "k" {
			t.Errorf("Renew = %+v, want %s", lost, reason)
		}
		if err := s.Release(t.Context(), c); !errors.Is(err, picket.ErrLost) {
			t.Errorf("Release = %v, want lost", err)
		}
		if reason == picket.ReasonDeleted {
			s.grant(claim("k")) // the directory is made again
		}
	}
}

func TestASymbolicLinkMayLeadToTheDirectoryButNotToAFile(t *testing.T) {
	base := t.TempDir()
	if err := os.Mkdir(base+"/real", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(base+"/real", base+"/link"); err != nil {
		t.Skip("no symbolic links here: ", err)
	}
	link, direct := open(t, base+"/link"), open(t, base+"/real")
	link.grant(claim("k"))
	direct.busy("k")

	victim := base + "/victim"
	if err := os.WriteFile(victim, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, suffix := range []string{lockSuffix, tempSuffix} {
		if err := os.Symlink(victim, base+"/real/x"+suffix); err != nil {
			t.Fatal(err)
		}
		_, err := direct.Acquire(t.Context(), claim("x"))
		if refused := errors.Is(err, picket.ErrRefused); refused != (suffix == lockSuffix) {
			t.Errorf("Acquire with a linked x%s = %v", suffix, err)
		}
		_ = os.Remove(base + "/real/x" + suffix)
	}
	if text, _ := os.ReadFile(victim); string(text) != "precious" {
		t.Errorf("the file behind the link is now %q", text)
	}
}
