//go:build unix

package main

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
)

// session is an interactive shell on a pseudo terminal, which does job control as a user's does.
type session struct {
	directory
	terminal *os.File
	seen     output
	from     int // what has been looked at
}

func newSession(t *testing.T) *session {
	t.Helper()
	return newSessionIn(newDirectory(t))
}

func newSessionIn(d directory) *session {
	t := d.t
	t.Helper()
	s := &session{directory: d}
	cmd := exec.Command("sh", "-i")
	cmd.Dir = s.path
	cmd.Env = append(s.environ(), "PS1=ready> ", "ENV=", "P="+binary)
	var err error
	if s.terminal, err = pty.Start(cmd); err != nil {
		t.Fatal(err)
	}
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		buf := make([]byte, 4096)
		for {
			n, err := s.terminal.Read(buf)
			_, _ = s.seen.Write(buf[:n])
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		// A test that failed leaves processes of the session, some of them stopped.
		left, _ := exec.Command("ps", "-o", "pid=", "-s", strconv.Itoa(cmd.Process.Pid)).Output()
		for pid := range strings.FieldsSeq(string(left)) {
			if pid, err := strconv.Atoi(pid); err == nil {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = s.terminal.Close()
		<-copied
	})
	s.wait("ready> ")
	s.types("stty -echo\n") // so that what is typed does not look like an answer
	s.wait("ready> ")
	return s
}

func (s *session) types(text string) {
	s.t.Helper()
	if _, err := s.terminal.WriteString(text); err != nil {
		s.t.Fatal(err)
	}
}

// wait waits until text is seen behind what was waited for before.
func (s *session) wait(text string) {
	s.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		seen := s.seen.String()
		if i := strings.Index(seen[s.from:], text); i >= 0 {
			s.from += i + len(text)
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("%q is not seen behind %q, but %q", text, seen[:s.from], seen[s.from:])
		}
	}
}

func (s *session) saw(text string) int { return strings.Count(s.seen.String(), text) }

const (
	ctrlC         = "\x03"
	ctrlZ         = "\x1a"
	ctrlBackslash = "\x1c"
)

// C1: the key reaches the job by the terminal, once; picket gives the job's own exit code.
func TestKeysOfTheTerminalReachTheJobOnce(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, key string }{{"INT", ctrlC}, {"QUIT", ctrlBackslash}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newSession(t)
			s.types(`$P run -q k -- sh -c 'trap "n=\$((n+1)); echo got $n $n" ` + c.name + `; n=0; echo up; while test $n = 0; do sleep 0.05; done; sleep 0.3; exit $((n+4))'; echo code $?.` + "\n")
			s.wait("up")
			s.types(c.key)
			s.wait("code 5.")
			if n := s.saw("got"); n != 1 {
				t.Errorf("the job was told %d times: %q", n, &s.seen)
			}
			s.wait("ready> ")
			s.types("echo typed\n") // the shell has the terminal again
			s.wait("typed")
		})
	}
}

// C1: a shell goes on with its script or loop unless its child died of the signal; flock(1), in one group with its command, stops both.
func TestKeyOfTheTerminalEndsTheScriptOrLoopAroundToo(t *testing.T) {
	t.Parallel()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash")
	}
	for _, key := range []struct {
		name, key, code string
	}{{"INT", ctrlC, "130"}, {"QUIT", ctrlBackslash, "131"}} {
		for name, c := range map[string]struct{ line, up string }{
			"loop":           {`for i in 1 2 3; do $P run -q k -- sh -c 'ulimit -c 0; echo up; exec sleep 1000'; done`, "up"},
			"script":         {bash + ` -c "ulimit -c 0; $P run -q k -- sh -c 'echo up; exec sleep 1000'; echo af''ter"`, "up"},
			"inside another": {bash + ` -c "ulimit -c 0; $P run -q k -- $P run -q k2 -- sh -c 'echo up; exec sleep 1000'; echo af''ter"`, "up"},
			"alone":          {`$P run -q k -- sh -c 'ulimit -c 0; echo up; exec sleep 1000'`, "up"},
			"pipeline":       {bash + ` -c "ulimit -c 0; $P run -q k -- sh -c 'echo up >&2; exec sleep 1000' | cat; echo af''ter"`, "up"},
			"waiting":        {bash + ` -c "ulimit -c 0; $P run k -- true; echo af''ter"`, "waiting for"},
		} {
			if (key.name == "QUIT") != (name == "alone") {
				continue // bash goes on with a loop or script of any command that QUIT ends
			}
			t.Run(key.name+" "+name, func(t *testing.T) {
				t.Parallel()
				s := newSession(t)
				if name == "waiting" {
					s.run("k", "--", "sh", "-c", "echo $$ >pid; exec sleep 1000")
					s.pid("pid")
				}
				s.types("exec " + bash + " --norc --noprofile -i\n")
				s.types("PS1='now> '\n")
				s.wait("now> ")
				s.types("stty -echo\n")
				s.wait("now> ")
				s.types(c.line + "\n")
				s.wait(c.up)
				s.types(key.key)
				if name == "alone" {
					s.wait("Quit") // the shell says so of a child that died of it
				}
				s.wait("now> ")
				s.types("echo code $?.\n")
				if name == "pipeline" {
					s.wait("code ")
				} else {
					s.wait("code " + key.code + ".")
				}
				if s.saw("after") > 0 || s.saw("up") > 1 {
					t.Errorf("the shell went on: %q", &s.seen)
				}
				if name != "waiting" && s.busy("k") {
					t.Error("the key is busy after the end")
				}
			})
		}
	}
}

// What another process sends is picket's own business: the script around it goes on.
func TestSignalThatIsNotTypedEndsNoScript(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	s.types(`sh -c "$P run -q k -- sh -c 'echo \$PPID >pid; exec sleep 1000'; echo went on"` + "\n")
	if err := syscall.Kill(s.pid("pid"), syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	s.wait("went on")
}

func TestJobReadsFromTheTerminal(t *testing.T) {
	t.Parallel()
	for name, line := range map[string]string{
		"at once":          `$P run -q k -- sh -c 'read x; echo "read: $x"'`,
		"in a pipeline":    `$P run -q k -- sh -c 'read x; echo "read: $x"' | cat`,
		"behind a pipe":    `echo | $P run -q k -- sh -c 'read x </dev/tty; echo "read: $x"'`,
		"inside another":   `$P run -q k -- $P run -q k2 -- sh -c 'read x; echo "read: $x"'`,
		"inside a script":  `sh -c "$P run -q k -- sh -c 'read x; echo read: \$x'; exit"`,
		"after a first":    `$P run -q k true; $P run -q k -- sh -c 'read x; echo "read: $x"'`,
		"with tostop":      `stty tostop; $P run -v k -- sh -c 'read x; echo "read: $x"'`,
		"brought from bg":  `$P run -q k -- sh -c 'read x; echo "read: $x"' & sleep 0.3; fg`,
		"after not found":  `$P run -q k no-such; $P run -q k /; $P run -q k -- sh -c 'read x; echo "read: $x"'`,
		"script goes on":   `sh -c '$P run -q k true; read x; echo "read: $x"'`,
		"script after bad": `printf '#!/no/such/interpreter\n' >bad; chmod +x bad; sh -c '$P run -q k ./bad; read x; echo "read: $x"'`,
		"pipeline reads":   `$P run -q k -- sleep 2 | sh -c 'read x </dev/tty; echo "read: $x"'`,
		"with a bad start": `printf '#!/no/such/interpreter\n' >bad; chmod +x bad; $P run -q k ./bad; $P run -q k -- sh -c 'read x; echo "read: $x"'`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSession(t)
			s.types(line + "; echo code $?.\n")
			time.Sleep(300 * time.Millisecond) // most of them are reading by then; those that are not must read it too
			s.types("hello\n")
			s.wait("read: hello")
			s.wait("code 0.")
			s.wait("ready> ")
			s.types("echo typed\n")
			s.wait("typed")
		})
	}
}

func TestStopAndForegroundContinueTheJob(t *testing.T) {
	t.Parallel()
	for name, line := range map[string]string{
		"alone":          `$P run -q k -- sh -c 'echo $$ >pid; echo up; read x; echo "read: $x"; exit 7'`,
		"inside another": `$P run -q k2 -- $P run -q k -- sh -c 'echo $$ >pid; echo up; read x; echo "read: $x"; exit 7'`,
		"in a pipeline":  `$P run -q k -- sh -c 'echo $$ >pid; echo up; read x; echo "read: $x"; exit 7' | cat; true`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSession(t)
			s.types(line + "\n")
			s.wait("up")
			pid := s.pid("pid")
			s.types(ctrlZ)
			s.wait("ready> ") // the shell has the terminal
			s.types("echo typed\n")
			s.wait("typed")
			eventually(t, "the job is stopped", func() bool { return stateOf(pid) == 'T' })
			if !s.busy("k") {
				t.Error("the key is free while the job is stopped")
			}
			s.types("fg\n")
			eventually(t, "the job goes on", func() bool { return stateOf(pid) != 'T' })
			s.types("hello\n")
			s.wait("read: hello")
			s.wait("ready> ")
			if !strings.Contains(line, "|") {
				s.types("echo code $?.\n")
				s.wait("code 7.")
			}
		})
	}
}

// The lease is over when the job comes back: it may not go on. The job starts no process: a shell that waits in vfork(2) does not stop.
func TestLockLostDuringAStopIsExitCode76AfterForeground(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	s.types(`$P run -q --max-hold 4s k -- sh -c 'trap "" TERM; echo $$ >pid; echo up; while :; do echo $$ >>at_work; done'` + "\n")
	s.wait("up")
	held := time.Now() // at least since now
	pid := s.pid("pid")
	s.file("at_work")
	s.types(ctrlZ)
	s.wait("ready> ")
	eventually(t, "the job is stopped", func() bool { return stateOf(pid) == 'T' })
	time.Sleep(time.Until(held.Add(4100 * time.Millisecond))) // past the hold: nothing tells while picket is stopped
	if gone(pid) {
		t.Fatal("the job ended before fg, so this shows nothing")
	}
	before, err := os.ReadFile(s.path + "/at_work")
	if err != nil {
		t.Fatal(err)
	}
	s.types("fg; echo code $?.\n")
	s.wait("is lost: max-hold")
	s.wait("code 76.")
	if !gone(pid) {
		t.Error("the job is still there")
	}
	if after, err := os.ReadFile(s.path + "/at_work"); err != nil || len(after) != len(before) {
		t.Errorf("the job has worked after the end of its lock: %d bytes, then %d (%v)", len(before), len(after), err)
	}
}

func TestJobIsInTheForegroundFromItsStart(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	s.types(`$P run -q k -- sh -c 'ps -o stat= -p $$'; echo code $?.` + "\n")
	s.wait("+")
	s.wait("code 0.")
}

func TestJobInTheBackgroundLeavesTheTerminalToTheShell(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	s.types(`$P run -q k -- sh -c 'ps -o stat= -p $$ >stat; echo >done' &` + "\n")
	s.wait("ready> ")
	if stat := s.file("stat"); strings.Contains(stat, "+") {
		t.Errorf("the job is in the foreground: %s", stat)
	}
	eventually(t, "the run is over", func() bool { return !s.busy("k") })
	s.types("echo code $?.\n") // a shell that is not in the foreground cannot read this
	s.wait("code 0.")
	s.types("echo again $?.\n")
	s.wait("again 0.")
}

// Without a shell that could continue it, picket must not stop.
func TestStopWithoutAShellThatContinuesIsUndone(t *testing.T) {
	t.Parallel()
	d := newDirectory(t)
	cmd := exec.Command(binary, "run", "-q", "k", "--", "sh", "-c", `echo $$ >pid; read x; echo "read: $x"`)
	cmd.Dir, cmd.Env = d.path, d.environ()
	terminal, err := pty.Start(cmd) // picket leads the session
	if err != nil {
		t.Fatal(err)
	}
	var seen output
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		buf := make([]byte, 4096)
		for {
			n, err := terminal.Read(buf)
			_, _ = seen.Write(buf[:n])
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = terminal.Close()
		<-copied
	})
	d.pid("pid")
	if _, err := terminal.WriteString(ctrlZ); err != nil {
		t.Fatal(err)
	}
	if _, err := terminal.WriteString("hello\n"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the job reads", func() bool { return strings.Contains(seen.String(), "read: hello") })
}

// stateOf returns the letter that ps shows, 0 if there is no such process.
func stateOf(pid int) byte {
	out, err := exec.Command("ps", "-o", "state=", "-p", strconv.Itoa(pid)).Output()
	if text := strings.TrimSpace(string(out)); err == nil && text != "" {
		return text[0]
	}
	return 0
}
