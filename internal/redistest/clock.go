package redistest

import (
	_ "embed"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

//go:embed shim/clock.c
var clockSource []byte

// clock moves the wall clock of one server, by a library that is loaded into it. A nil clock moves nothing.
// libfaketime cannot do it: it never comes up with a redis-server that is built with jemalloc.
type clock struct {
	shim   string
	offset string // a file
}

func newClock(t testing.TB) *clock {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux preloads the library that moves a server's clock")
	}
	compiler, err := exec.LookPath("cc")
	if err != nil {
		missing(t, "cc is not in PATH: install it with \"apt-get install -y gcc libc6-dev\"")
	}
	dir := t.TempDir()
	c := &clock{shim: filepath.Join(dir, "clock.so"), offset: filepath.Join(dir, "offset")}
	source := filepath.Join(dir, "clock.c")
	if err := os.WriteFile(source, clockSource, 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), compiler, "-O2", "-Wall", "-Wextra", "-shared", "-fPIC", "-o", c.shim, source)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", build, err, out)
	}
	if err := c.set(0); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *clock) environment() []string {
	if c == nil {
		return nil
	}
	return []string{"LD_PRELOAD=" + c.shim, "PICKET_CLOCK=" + c.offset}
}

// set overwrites in place, because the server has mapped the file.
func (c *clock) set(offset time.Duration) error {
	file, err := os.OpenFile(c.offset, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(offset)), 0) //nolint:gosec // The library reads it as signed again.
	if closing := file.Close(); err == nil {
		err = closing
	}
	return err
}

// SetClock steps the server's wall clock to this distance from the machine's. The server needs [WithClock].
func (s *Server) SetClock(offset time.Duration) {
	s.t.Helper()
	if s.clock == nil {
		s.t.Fatal("the server runs without redistest.WithClock")
	}
	s.must(s.clock.set(offset))
}
