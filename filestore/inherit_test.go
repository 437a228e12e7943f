//go:build unix

package filestore

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/picket-go/picket"
)

func TestAKilledHolderFreesTheKey(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	p := start(t, "hold", dir, "k")
	token := p.number()
	if b := s.busy("k"); b.Holder.PID != p.Process.Pid {
		t.Errorf("busy by %+v, want pid %d", b.Holder, p.Process.Pid)
	}
	p.kill()
	if st := s.state("k", picket.StatusFree); st.Token != token || st.Holder.ID != "" {
		t.Errorf("after the crash: %+v, want free and token %d", st, token)
	}
	if g := s.grant(claim("k")); g.Token <= token {
		t.Errorf("token %d after %d", g.Token, token)
	}
}

// DESIGN 4.3: the kernel frees a parent's lock before it signals its child, so in 12 of 150 kills the next holder ran beside the old child. With the
// descriptor in the child that cannot be.
func TestAChildWithTheDescriptorKeepsTheLockWhenItsParentIsKilled(t *testing.T) {
	for range 10 {
		dir := t.TempDir()
		s := open(t, dir)
		p, job := startWrapped(t, dir)
		p.kill()
		b := s.busy("k")
		if b.Holder.PID != p.Process.Pid || b.Holder.ID == "" {
			t.Fatalf("busy by %+v, want the killed wrapper, pid %d", b.Holder, p.Process.Pid)
		}
		if _, a := readLocks().of(s.place("k").lock()); a == locked { // elsewhere Inspect goes by the process that acquired
			r, known, _ := s.read(s.place("k"))
			if _, sure := s.holder(s.place("k"), r, known); !sure {
				t.Fatal("each poll of a waiter looks for another holder") // a wait of 10 ms
			}
			if st := s.state("k", picket.StatusHeld); st.Holder != b.Holder {
				t.Fatalf("held by %+v, want %+v", st.Holder, b.Holder)
			}
		} else if runtime.GOOS == "linux" && pidNamespace() == "pid:[4026531836]" {
			t.Fatal("the kernel's list lacks the lock")
		}
		s.stillBusyUntilGone(job)
	}
}

func TestReleaseLeavesTheLockToThoseThatInheritedIt(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	p, job := startWrapped(t, dir)
	p.finish()
	if b := s.busy("k"); b.Holder.PID != p.Process.Pid || b.Holder.Label != "test" {
		t.Errorf("busy by %+v, want the wrapper's job, pid %d", b.Holder, p.Process.Pid)
	}
	s.stillBusyUntilGone(job)
}

// What only an inherited descriptor keeps is held, without an end, also while its MinHold goes on.
func TestBusyAndInspectAgreeOnALockThatWasPassedOn(t *testing.T) {
	for _, minHold := range []time.Duration{0, time.Hour} {
		s := open(t, t.TempDir())
		c := claim("k")
		c.MinHold = minHold
		s.grant(c)
		f, err := s.File("k")
		if err != nil {
			t.Fatal(err)
		}
		heir, err := syscall.Dup(int(f.Fd()))
		if err != nil {
			t.Fatal(err)
		}
		s.release(c)
		b := s.busy("k")
		if b.Holder.PID != os.Getpid() || b.Holder.Label != "test" || b.Remaining != picket.NoExpiry || minHold > 0 && b.Holder.ID != "" {
			t.Errorf("busy: %+v", b)
		}
		if _, a := readLocks().of(s.place("k").lock()); a == locked {
			if st := s.state("k", picket.StatusHeld); st.Holder != b.Holder || st.Remaining != b.Remaining {
				t.Errorf("status: %+v, busy: %+v", st, b)
			}
		}
		_ = syscall.Close(heir)
		if minHold == 0 {
			s.state("k", picket.StatusFree)
			continue
		}
		if st, b := s.state("k", picket.StatusCooling), s.busy("k"); st.Holder != b.Holder || b.Remaining <= 0 || b.Remaining > minHold {
			t.Errorf("status: %+v, busy: %+v", st, b)
		}
	}
}

// startWrapped starts a wrapper that holds k and its job, which goes on when the wrapper is gone.
func startWrapped(t *testing.T, dir string) (wrapper *proc, job int) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = r.Close(), w.Close() })
	p := startWith(t, r, "wrap", dir, "k")
	return p, int(p.number())
}

// stillBusyUntilGone kills job and checks that the key was busy until then.
func (f files) stillBusyUntilGone(job int) {
	f.t.Helper()
	f.busy("k")
	if err := syscall.Kill(job, syscall.SIGKILL); err != nil {
		f.t.Fatal(err)
	}
	eventually(f.t, "the key of a dead job is free", func() bool {
		_, err := f.Acquire(f.t.Context(), claim("k"))
		return err == nil
	})
}

func TestAChildWithoutTheDescriptorDoesNotKeepTheLock(t *testing.T) {
	s := open(t, t.TempDir())
	c := claim("k")
	s.grant(c)
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), roleVariable+"=idle")
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	h := s.lease(c)
	h.passed = true // close only, as after File: an inherited descriptor would keep the lock
	s.release(c)
	s.grant(claim("k"))
	_ = in.Close()
	_ = child.Wait()
}

func TestFileIsOnlyGivenForAKeyThatIsHeldHere(t *testing.T) {
	dir := t.TempDir()
	a, b := open(t, dir), open(t, dir)
	c := claim("k")
	a.grant(c)
	if _, err := b.File("k"); !errors.Is(err, picket.ErrLost) {
		t.Errorf("File of another's key: %v", err)
	}
	gone := claim("gone")
	a.grant(gone)
	a.release(gone)
	if _, err := a.File("gone"); !errors.Is(err, picket.ErrLost) {
		t.Errorf("File of a released key: %v", err)
	}
	f, err := a.File("k")
	if err != nil {
		t.Fatal(err)
	}
	// A user that closes it has given the lock away, and is told so.
	_ = f.Close()
	if err := a.renewal(c); !errors.Is(err, picket.ErrLost) {
		t.Errorf("Renew after the file was closed: %v", err)
	}
	b.grant(claim("k"))
}
