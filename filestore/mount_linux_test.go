package filestore

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/picket-go/picket"
)

// mount mounts a small file system in memory, which needs root.
func mount(t *testing.T, options string) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Skip("cannot mount (needs root): ", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func TestAFullDiskIsUnavailableUntilThereIsSpace(t *testing.T) {
	dir := mount(t, "size=64k")
	s := open(t, dir)
	old := claim("old")
	g := s.grant(old)
	if err := os.WriteFile(dir+"/ballast", make([]byte, 1<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal("the disk is not full: ", err)
	}
	_, err := s.Acquire(t.Context(), claim("new"))
	if !errors.Is(err, picket.ErrUnavailable) || !strings.Contains(err.Error(), dir) {
		t.Errorf("Acquire = %v", err)
	}
	s.state("new", picket.StatusFree)
	s.release(old)
	if _, err := s.Acquire(t.Context(), claim("old")); !errors.Is(err, picket.ErrUnavailable) {
		t.Errorf("Acquire = %v", err)
	}
	if st := s.state("old", picket.StatusFree); st.Token != g.Token {
		t.Errorf("the last token is %d, want %d", st.Token, g.Token)
	}
	if err := os.Remove(dir + "/ballast"); err != nil {
		t.Fatal(err)
	}
	s.grant(claim("new"))
	if next := s.grant(claim("old")); next.Token <= g.Token {
		t.Errorf("token %d after %d", next.Token, g.Token)
	}
}

func TestAReadOnlyDirectoryIsRefused(t *testing.T) {
	dir := mount(t, "size=64k")
	s := open(t, dir)
	c := claim("k")
	g := s.grant(c)
	s.release(c)
	if err := syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Skip("cannot remount: ", err)
	}
	for _, key := range []string{"k", "new"} {
		if _, err := s.Acquire(t.Context(), claim(key)); !errors.Is(err, picket.ErrRefused) || !strings.Contains(err.Error(), dir) {
			t.Errorf("Acquire(%q) = %v, want refused", key, err)
		}
	}
	if st := s.state("k", picket.StatusFree); st.Token != g.Token {
		t.Errorf("Inspect = %+v", st)
	}
	_, err := open(t, dir+"/below/it").Acquire(t.Context(), claim("k"))
	if !errors.Is(err, picket.ErrRefused) {
		t.Errorf("Acquire = %v, want refused", err)
	}
}

func TestLocalFileSystemsAreNotTakenForNetworks(t *testing.T) {
	for _, dir := range []string{mount(t, "size=64k"), t.TempDir(), "/proc"} {
		if kind, err := networkType(dir); kind != "" || err != nil {
			t.Errorf("%s is %q, %v", dir, kind, err)
		}
	}
	if kind := mountType("/proc"); kind != "proc" {
		t.Errorf("/proc is mounted as %q", kind)
	}
}

// Where the kernel does not list all locks, the record and its process decide.
func TestWithoutTheKernelsListTheProcessDecides(t *testing.T) {
	s := open(t, t.TempDir())
	c := claim("k")
	s.grant(c)
	p := s.place("k")
	r, _, err := s.read(p)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]struct {
		change func(r *record)
		locked bool
	}{
		"lives":              {func(*record) {}, true},
		"released":           {func(r *record) { r.Held = markFree }, false},
		"released, passed":   {func(r *record) { r.Held = markPassed }, false},
		"dead":               {func(r *record) { r.Process.PID = 1 << 30 }, false},
		"pid used again":     {func(r *record) { r.Process.Start++ }, false},
		"another container":  {func(r *record) { r.Process.Namespace, r.Process.PID = "pid:[1]", 1<<30 }, true},
		"another machine":    {func(r *record) { r.Process.Host, r.Process.PID = "elsewhere.example", 1<<30 }, true},
		"process is unknown": {func(r *record) { r.Process = process{} }, true},
	} {
		changed := r
		want.change(&changed)
		if got := s.locked(p, changed, true, lockTable{}); got != want.locked {
			t.Errorf("%s: locked is %v, want %v", name, got, want.locked)
		}
	}
	if s.locked(p, record{}, false, lockTable{}) {
		t.Error("a key without a record is locked")
	}
	s.release(c)
	r.Process.Host = "elsewhere.example"
	if s.acceptsNet = true; !s.locked(p, r, true, lockTable{whole: true}) {
		t.Error("a lock of another machine is not believed on a network file system")
	}
}

func TestAZombieIsDead(t *testing.T) {
	p := start(t, "idle")
	_ = p.in.Close()
	who := process{Host: self().Host, Namespace: self().Namespace, PID: p.Process.Pid}
	eventually(t, "the process is a zombie", func() bool {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Process.Pid))
		return strings.Contains(string(text), ") Z ")
	})
	if f := who.fate(self()); f != dead {
		t.Errorf("fate %d, want dead", f)
	}
}
