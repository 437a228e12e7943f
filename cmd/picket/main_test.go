package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/rogpeppe/go-internal/testscript"
)

// binary is the built picket: `go run` would turn every exit code into 1.
var binary string

// canary is the password of every Redis user in the tests. No output of any picket may have it.
const canary = "canary-p4ss"

func TestMain(m *testing.M) {
	if role := os.Getenv("PICKET_TEST_ROLE"); role != "" {
		os.Exit(play(role))
	}
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "picket-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "picket")
	if runtime.GOOS == "windows" {
		binary += ".exe"
	}
	args := []string{"build", "-o", binary}
	if raceEnabled {
		args = append(args, "-race")
		os.Setenv("GORACE", "atexit_sleep_ms=0") // else each picket sleeps for a second at its end
	}
	if out, err := exec.Command("go", append(args, ".")...).CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building picket: %v\n%s", err, out)
		return 1
	}
	redis.SetLogger(silence{})
	// What the caller has set must not decide a test.
	for _, name := range []string{storeVariable, storeFileVariable, prefixVariable, heldVariable} {
		os.Unsetenv(name)
	}
	return m.Run()
}

// TestScripts covers GL-74 and, with the messages of each, most of what `picket help` promises.
func TestScripts(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("the scripts use sh")
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Setenv("PATH", filepath.Dir(binary)+string(os.PathListSeparator)+env.Getenv("PATH"))
			env.Setenv("XDG_STATE_HOME", filepath.Join(env.WorkDir, "state"))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"code": code, "hold": hold},
	})
}

// code N COMMAND…: the command must exit with N.
func code(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N COMMAND...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		state, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			ts.Fatalf("%v", err)
		}
		got = state.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// hold ARG…: runs picket until the end of the script, with a command that says "held" first; returns when it has.
func hold(ts *testscript.TestScript, neg bool, args []string) {
	r, w, err := os.Pipe()
	ts.Check(err)
	cmd := exec.Command(binary, append([]string{"run", "-q"}, append(args, "sh", "-c", "echo held; read x")...)...)
	cmd.Dir = ts.Getenv("WORK")
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+ts.Getenv("XDG_STATE_HOME"))
	cmd.Stdout = w
	stdin, err := cmd.StdinPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	ts.Defer(func() {
		_ = stdin.Close() // ends the command
		_ = cmd.Wait()
		_ = r.Close()
	})
	_ = w.Close()
	line := make([]byte, 5)
	if _, err := r.Read(line); err != nil || string(line) != "held\n" {
		ts.Fatalf("the holder said %q: %v", line, err)
	}
}
