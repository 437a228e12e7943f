//go:build unix

package main

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"testing"
)

// deaf starts picket with a stderr whose other end is returned.
func (d directory) deaf(args ...string) (cmd *exec.Cmd, reader *os.File) {
	d.t.Helper()
	cmd = exec.Command(binary, append([]string{"run", "-v"}, args...)...)
	cmd.Dir, cmd.Env = d.path, d.environ()
	reader = d.pipe(&cmd.Stderr)
	if err := cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	_ = cmd.Stderr.(*os.File).Close()
	d.t.Cleanup(func() {
		_ = cmd.Process.Kill() // an error means that it has ended
		_, _ = reader.Close(), cmd.Wait()
	})
	return cmd, reader
}

func wantCode(t *testing.T, err error, code int) {
	t.Helper()
	if ended, ok := errors.AsType[*exec.ExitError](err); !ok || ended.ExitCode() != code {
		t.Errorf("%v, want exit code %d", err, code)
	}
}

// C2: a terminal that was stopped by Ctrl-S, or a log that stands still, must not keep the job alive past its lock.
func TestStderrThatNobodyReadsHoldsNothingUp(t *testing.T) {
	t.Parallel()
	d := newDirectory(t)
	cmd, reader := d.deaf("--max-hold", "2s", "k", "sh", "-c", `yes >&2 & echo $! >pid; sleep 0.5`)
	pid := d.pid("pid")
	eventually(t, "the job is gone", func() bool { return gone(pid) })
	_, _ = io.Copy(io.Discard, reader)
	wantCode(t, cmd.Wait(), exitLost)
}

// C1: the job's exit code comes back although nobody is left to hear what picket says.
func TestReaderOfStderrThatHasGoneEndsNoJob(t *testing.T) {
	t.Parallel()
	d := newDirectory(t)
	cmd, reader := d.deaf("k", "sh", "-c", `echo >up; while ! test -e go; do sleep 0.02; done; yes | head -1 >done; exit 7`)
	d.file("up")
	_ = reader.Close()
	if err := os.WriteFile(d.path+"/go", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	wantCode(t, cmd.Wait(), 7)
	if line := d.file("done"); line != "y" { // the job's own pipes are as ever
		t.Errorf("the job wrote %q", line)
	}
}

// C1: a log that may grow no more (ulimit -f) is picket's own trouble.
func TestLogThatIsFullEndsNoJob(t *testing.T) {
	t.Parallel()
	d := newDirectory(t)
	p := d.start("sh", "-c", `head -c 4096 /dev/zero >log; ulimit -f 8; exec "$0" run -v k -- sh -c 'sleep 0.5; exit 7' 2>>log`, binary)
	p.wantExit(7)
}
