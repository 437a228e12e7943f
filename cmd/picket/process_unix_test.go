//go:build unix

package main

import (
	"bytes"
	"errors"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience bounds every wait for a process. A test that needs it fails.
const patience = 20 * time.Second

// eventually polls until ok, within patience.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", patience, what)
		}
	}
}

// directory is a working directory and a store, for the picket processes of one test.
type directory struct {
	t     *testing.T
	path  string
	store string // its URL; files in the directory if empty
}

func newDirectory(t *testing.T) directory { return directory{t: t, path: t.TempDir()} }

// process is a running picket, or another command.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	out  output
	err  output
	done chan struct{}
	code int
}

type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// run starts "picket run -q FLAGS…" on this directory's store.
func (d directory) run(args ...string) *process {
	d.t.Helper()
	return d.start(binary, append([]string{"run", "-q"}, args...)...)
}

// start starts a command, which is killed at the end of the test. Processes that may outlive it are made known with pid.
func (d directory) start(name string, args ...string) *process {
	d.t.Helper()
	p := &process{t: d.t, cmd: exec.Command(name, args...), done: make(chan struct{})}
	p.cmd.Dir = d.path
	p.cmd.Env = d.environ()
	// Files rather than writers: a Wait would wait for everybody who inherits a pipe.
	outR, errR := d.pipe(&p.cmd.Stdout), d.pipe(&p.cmd.Stderr)
	if err := p.cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	for _, w := range []io.Writer{p.cmd.Stdout, p.cmd.Stderr} {
		_ = w.(*os.File).Close()
	}
	var copies sync.WaitGroup
	copies.Go(func() { _, _ = io.Copy(&p.out, outR) })
	copies.Go(func() { _, _ = io.Copy(&p.err, errR) })
	go func() {
		_ = p.cmd.Wait()
		p.code = p.cmd.ProcessState.ExitCode()
		close(p.done)
	}()
	d.t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // an error means that it has ended
		<-p.done
		_ = outR.SetReadDeadline(time.Now().Add(100 * time.Millisecond)) // somebody may have inherited the other end
		_ = errR.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		copies.Wait()
		_, _ = outR.Close(), errR.Close()
		p.keepsSecrets()
	})
	return p
}

// keepsSecrets fails the test if a password got out.
func (p *process) keepsSecrets() {
	p.t.Helper()
	if strings.Contains(p.out.String()+p.err.String(), canary) {
		p.t.Errorf("%s shows a password: stdout %q, stderr %q", p.cmd, &p.out, &p.err)
	}
}

func (d directory) pipe(w *io.Writer) *os.File {
	r, f, err := os.Pipe()
	if err != nil {
		d.t.Fatal(err)
	}
	*w = f
	return r
}

func (d directory) environ() []string {
	store := d.store
	if store == "" {
		store = (&url.URL{Scheme: "file", Path: d.path + "/locks"}).String()
	}
	return append(os.Environ(), "PICKET_STORE="+store, "D="+d.path, "TEST_BINARY="+os.Args[0])
}

// exited waits for the process and returns its exit code.
func (p *process) exited() int {
	p.t.Helper()
	select {
	case <-p.done:
		return p.code
	case <-time.After(patience):
		p.t.Fatalf("%s has not ended; stdout %q, stderr %q", p.cmd, &p.out, &p.err)
		return 0
	}
}

func (p *process) wantExit(code int) {
	p.t.Helper()
	if got := p.exited(); got != code {
		p.t.Fatalf("%s exited with %d, want %d; stdout %q, stderr %q", p.cmd, got, code, &p.out, &p.err)
	}
}

// says waits until stdout holds text.
func (p *process) says(text string) {
	p.t.Helper()
	eventually(p.t, "stdout has "+strconv.Quote(text), func() bool { return strings.Contains(p.out.String(), text) })
}

func (p *process) complains(text string) {
	p.t.Helper()
	eventually(p.t, "stderr has "+strconv.Quote(text), func() bool { return strings.Contains(p.err.String(), text) })
}

func (p *process) signal(sig syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.t.Fatal(err)
	}
}

// file waits for a file of the directory to have a whole line, and returns it.
func (d directory) file(name string) (line string) {
	d.t.Helper()
	eventually(d.t, "file "+name+" has a line", func() bool {
		text, err := os.ReadFile(filepath.Join(d.path, name))
		line = strings.TrimSpace(string(text))
		return err == nil && bytes.HasSuffix(text, []byte("\n"))
	})
	return line
}

// pid waits for a file with the pid of a process, which is killed at the end of the test.
func (d directory) pid(name string) int {
	d.t.Helper()
	pid, err := strconv.Atoi(d.file(name))
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) }) // an error means that it has ended
	return pid
}

// gone reports whether no process has the id; one that ended and was not waited for does not count.
func gone(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return true
	}
	state, err := exec.Command("ps", "-o", "state=", "-p", strconv.Itoa(pid)).Output()
	return err != nil || strings.HasPrefix(strings.TrimSpace(string(state)), "Z")
}

// busy reports whether a run of key without waiting is refused.
func (d directory) busy(key string) bool {
	d.t.Helper()
	p := d.run("-n", key, "true")
	switch code := p.exited(); code {
	case 0:
		return false
	case exitBusy:
		return true
	default:
		d.t.Fatalf("exit code %d, stderr %q", code, &p.err)
		return false
	}
}

// tokensRise checks the tokens that the jobs wrote, in the order in which they ran.
func (d directory) tokensRise(n int) {
	d.t.Helper()
	text, err := os.ReadFile(filepath.Join(d.path, "tokens"))
	if err != nil {
		d.t.Fatal(err)
	}
	tokens := strings.Fields(string(text))
	if len(tokens) != n || !slices.IsSorted(tokens) || len(slices.Compact(tokens)) != n { // of equal length: they are microseconds
		d.t.Errorf("tokens do not rise, or are not %d: %v", n, tokens)
	}
}
