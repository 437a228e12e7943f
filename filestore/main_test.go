package filestore

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/picket-go/picket"
)

const roleVariable = "FILESTORE_TEST_ROLE"

// TestMain is also the main function of the processes that the tests start: the same binary in another role.
func TestMain(m *testing.M) {
	role, args := os.Getenv(roleVariable), os.Args[1:]
	if role == "" {
		os.Exit(m.Run())
	}
	if err := roles[role](args); err != nil {
		fmt.Fprintln(os.Stderr, role, err)
		os.Exit(1)
	}
}

var roles = map[string]func(args []string) error{
	"hold":  holdRole,
	"race":  raceRole,
	"crash": crashRole,
	"wrap":  wrapRole,
	"idle":  func([]string) error { _, err := io.Copy(io.Discard, os.Stdin); return err },
}

// holdRole dir key: tells its token and holds until its stdin ends.
func holdRole(args []string) error {
	s, err := New(args[0])
	if err != nil {
		return err
	}
	c := claim(args[1])
	g, err := s.Acquire(context.Background(), c)
	if err != nil {
		return err
	}
	fmt.Println(g.Token)
	_, _ = io.Copy(io.Discard, os.Stdin)
	return s.Release(context.Background(), c)
}

// wrapRole dir key: tells the pid of a child that has the descriptor, and holds until its stdin ends.
func wrapRole(args []string) error {
	s, err := New(args[0])
	if err != nil {
		return err
	}
	c := claim(args[1])
	if _, err := s.Acquire(context.Background(), c); err != nil {
		return err
	}
	f, err := s.File(args[1])
	if err != nil {
		return err
	}
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), roleVariable+"=idle")
	child.ExtraFiles = []*os.File{f}
	child.Stdin = os.NewFile(3, "pipe") // of the test: the job ends with it and not with us
	if err := child.Start(); err != nil {
		return err
	}
	fmt.Println(child.Process.Pid)
	_, _ = io.Copy(io.Discard, os.Stdin)
	return s.Release(context.Background(), c)
}

// raceRole dir log rounds ahead key...: locks random keys, and in each lock checks that it is alone and appends the token to log/key. ahead is how far
// its clock is ahead: a day and more makes it clean up what others use.
func raceRole(args []string) error {
	dir, log, keys := args[0], args[1], args[4:]
	rounds, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	ahead, err := time.ParseDuration(args[3])
	if err != nil {
		return err
	}
	s, err := New(dir, withNow(func() time.Time { return time.Now().Add(ahead) }))
	if err != nil {
		return err
	}
	fmt.Println("ready")
	for range rounds {
		c := claim(keys[rand.IntN(len(keys))])
		g, err := s.acquireSoon(c)
		if err != nil {
			return err
		}
		if err := alone(filepath.Join(log, c.Key), g.Token); err != nil {
			return err
		}
		if err := s.Release(context.Background(), c); err != nil {
			return err
		}
	}
	return nil
}

// alone appends token to the file log, and fails if another process is doing so: its witness is no kernel lock but a link that must not exist. It is
// made in one act with our pid as its target, which tells the witness of a process that was killed.
func alone(log string, token int64) error {
	witness, pid := log+".busy", strconv.Itoa(os.Getpid())
	err := os.Symlink(pid, witness)
	if errors.Is(err, os.ErrExist) {
		other, err := os.Readlink(witness)
		if pid, _ := strconv.Atoi(other); pid == 0 || running(pid) {
			return fmt.Errorf("process %q holds beside token %d: %w", other, token, err)
		}
		if err := os.Remove(witness); err != nil {
			return err
		}
		return alone(log, token)
	}
	if err != nil {
		return err
	}
	l, err := os.OpenFile(log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(l, token)
	return errors.Join(err, l.Close(), os.Remove(witness))
}

func running(pid int) bool {
	_, ok := startOf(pid)
	return ok && exists(pid)
}

// crashRole dir key minhold step number: tells its token, releases, and kills itself when it comes to the step for that time.
func crashRole(args []string) error {
	minHold, err := time.ParseDuration(args[2])
	if err != nil {
		return err
	}
	left, err := strconv.Atoi(args[4])
	if err != nil {
		return err
	}
	s, err := New(args[0], withStep(func(name, _ string) error {
		if name == args[3] {
			if left--; left == 0 {
				self, _ := os.FindProcess(os.Getpid())
				_ = self.Kill()
				select {}
			}
		}
		return nil
	}))
	if err != nil {
		return err
	}
	c := claim(args[1])
	c.MinHold = minHold
	g, err := s.Acquire(context.Background(), c)
	if err != nil {
		return err
	}
	fmt.Println(g.Token)
	return s.Release(context.Background(), c)
}

// proc is a process in a role.
type proc struct {
	*exec.Cmd
	t   *testing.T
	in  io.WriteCloser
	out *bufio.Reader
	err strings.Builder
}

func start(t *testing.T, role string, args ...string) *proc {
	t.Helper()
	return startWith(t, nil, role, args...)
}

// startWith gives the process extra as descriptor 3.
func startWith(t *testing.T, extra *os.File, role string, args ...string) *proc {
	t.Helper()
	p := &proc{Cmd: exec.Command(os.Args[0], args...), t: t}
	p.Env = append(os.Environ(), roleVariable+"="+role)
	p.Stderr = &p.err
	if extra != nil {
		p.ExtraFiles = []*os.File{extra}
	}
	var err error
	if p.in, err = p.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.out = bufio.NewReader(out)
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	bound := time.AfterFunc(time.Minute, func() { _ = p.Process.Kill() })
	t.Cleanup(func() {
		bound.Stop()
		_ = p.in.Close()
		_ = p.Process.Kill()
		_ = p.Wait()
	})
	return p
}

// number reads a line with one.
func (p *proc) number() int64 {
	p.t.Helper()
	line, err := p.out.ReadString('\n')
	if err != nil {
		p.t.Fatalf("no line from the process: %v, %s", err, p.err.String())
	}
	n, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
	if err != nil {
		p.t.Fatal(err)
	}
	return n
}

// kill ends the process as a crash does, and returns when it is gone.
func (p *proc) kill() {
	_ = p.Process.Kill()
	_ = p.Wait()
}

// finish waits for the process to end well.
func (p *proc) finish() {
	p.t.Helper()
	_ = p.in.Close()
	if err := p.Wait(); err != nil {
		p.t.Errorf("%v: %s", err, p.err.String())
	}
}

// acquireSoon acquires c as the Locker does: it asks until the key is free.
func (s *Store) acquireSoon(c picket.Claim) (picket.Grant, error) {
	for until := time.Now().Add(30 * time.Second); ; {
		g, err := s.Acquire(context.Background(), c)
		if !errors.Is(err, picket.ErrBusy) || time.Now().After(until) {
			return g, err
		}
		time.Sleep(time.Duration(rand.N(int64(time.Millisecond)))) // a real process needs real time
	}
}
