package redistest_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/picket-go/picket/internal/redistest"
)

// inner is set in a test process that another test starts, and names what that process is for.
const inner = "PICKET_REDISTEST_INNER"

// again runs one test of this package in a process of its own.
func again(t *testing.T, env ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v") //nolint:gosec // It is this program.
	cmd.Env = append(os.Environ(), env...)
	return cmd
}

func TestServersDieWithAKilledProcess(t *testing.T) {
	if os.Getenv(inner) == "servers" {
		fmt.Println("addr", redistest.Start(t).Addr())
		fmt.Println("addr", redistest.Shared(t).Addr())
		time.Sleep(time.Minute) // Its parent kills it.
		return
	}
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux kills a child with its parent")
	}
	cmd := again(t, inner+"=servers", "TMPDIR="+t.TempDir()) // It cannot clean up.
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var clients []*redis.Client
	for lines := bufio.NewScanner(out); len(clients) < 2 && lines.Scan(); {
		if addr, ok := strings.CutPrefix(lines.Text(), "addr "); ok {
			client := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, DialerRetries: 1})
			defer client.Close()
			if err := client.Ping(t.Context()).Err(); err != nil {
				t.Error(err)
			}
			clients = append(clients, client)
		}
	}
	if err := cmd.Process.Kill(); err != nil || len(clients) != 2 {
		t.Fatal(err, len(clients))
	}
	_ = cmd.Wait() // It was killed.
	for _, client := range clients {
		alive := true
		for deadline := time.Now().Add(10 * time.Second); alive && time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
			alive = client.Ping(t.Context()).Err() == nil
		}
		if alive {
			t.Errorf("the server at %s lives on", client.Options().Addr)
		}
	}
}

func TestAMissingServerFailsUnderCIAndSkipsElsewhere(t *testing.T) {
	if os.Getenv(inner) == "missing" {
		redistest.Start(t)
		return
	}
	t.Parallel()
	for ci, want := range map[string]string{"true": "--- FAIL", "": "--- SKIP"} {
		out, _ := again(t, inner+"=missing", "PATH="+t.TempDir(), "CI="+ci).CombinedOutput()
		if text := string(out); !strings.Contains(text, want) || !strings.Contains(text, "apt-get install -y redis-server") {
			t.Errorf("CI=%q: want %s with the way to install it, have\n%s", ci, want, text)
		}
	}
}

func TestAServerThatCannotStartShowsItsOutput(t *testing.T) {
	if os.Getenv(inner) == "config" {
		redistest.Start(t, redistest.WithConfig("no-such-directive yes"))
		return
	}
	t.Parallel()
	out, err := again(t, inner+"=config").CombinedOutput()
	if text := string(out); err == nil || !strings.Contains(text, "no-such-directive") || !strings.Contains(text, "Bad directive") {
		t.Errorf("%v\n%s", err, text)
	}
}
