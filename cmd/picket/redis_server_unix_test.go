//go:build unix

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// redisServer is a real server process. Its user picket may do what `picket help stores` says, and no more; admin may do all.
type redisServer struct {
	t             *testing.T
	dir           string
	port          int
	pid           int
	tls           *certificate // if it speaks TLS, and nothing else
	*redis.Client              // as admin
}

const (
	redisMissing = `redis-server is not in PATH: install it with "apt-get install -y redis-server" or "brew install redis"`
	redisUsers   = "user default off\nuser admin on >" + canary + " ~* &* +@all\n"
)

// startRedis starts a server that keeps nothing, with more lines of redis.conf.
func startRedis(t *testing.T, lines ...string) *redisServer {
	t.Helper()
	return startRedisWith(t, nil, lines...)
}

// startRedisWith starts one that speaks TLS, if there is a certificate.
func startRedisWith(t *testing.T, c *certificate, lines ...string) *redisServer {
	t.Helper()
	s := &redisServer{t: t, dir: t.TempDir(), port: freePort(t), tls: c}
	config := fmt.Sprintf("bind 127.0.0.1\ndir %s\nsave \"\"\n%suser picket on >%s %s\n", s.dir, redisUsers, canary, aclRules(defaultPrefix))
	s.launch(config + c.listen(s.port) + strings.Join(lines, "\n"))
	return s
}

// startSentinel starts a Sentinel that watches master under the name "main".
func startSentinel(t *testing.T, master *redisServer) *redisServer {
	t.Helper()
	s := &redisServer{t: t, dir: t.TempDir(), port: freePort(t)}
	s.launch(fmt.Sprintf("bind 127.0.0.1\nport %d\ndir %s\n%ssentinel monitor main 127.0.0.1 %d 1\nsentinel auth-user main admin\nsentinel auth-pass main %s\n",
		s.port, s.dir, redisUsers, master.port, canary), "--sentinel")
	return s
}

// launch returns when the server answers. The shell around it ends it, also if the test binary is killed: its stdin is closed then.
func (s *redisServer) launch(config string, args ...string) {
	s.t.Helper()
	file := filepath.Join(s.dir, "redis.conf") // ps would show passwords among the arguments
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		s.t.Fatal(err)
	}
	cmd := exec.Command("sh", append([]string{"-c", `"$@" >output 2>&1 </dev/null & echo $!; read x; kill -9 $!`, "sh", findRedis(s.t), file}, args...)...)
	cmd.Dir = s.dir
	stdin, err := cmd.StdinPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.Client = redis.NewClient(&redis.Options{Addr: s.addr(), Username: "admin", Password: canary, TLSConfig: s.tls.client()})
	s.t.Cleanup(func() {
		_ = s.Client.Close()
		_ = stdin.Close()
		_ = cmd.Wait() // by a signal, if the test killed the server before
		if s.t.Failed() {
			text, err := os.ReadFile(filepath.Join(s.dir, "output"))
			s.t.Logf("Redis at %s wrote (%v):\n%s", s.addr(), err, text)
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		s.t.Fatal(err)
	}
	if s.pid, err = strconv.Atoi(strings.TrimSpace(line)); err != nil {
		s.t.Fatal(err)
	}
	eventually(s.t, "the server answers", func() bool { return s.Ping(s.ctx()).Err() == nil })
}

func findRedis(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"redis-server", "valkey-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("CI") != "" {
		t.Fatal(redisMissing)
	}
	t.Skip(redisMissing)
	return ""
}

// ports counts those that were given away: two servers that start at once must not get the same one.
var ports atomic.Uint32

var firstPort = rand.Uint32N(portCount) //nolint:gosec // other processes should begin elsewhere, no more

const portCount = 12_000

// freePort chooses below the range that systems take the client's end of a connection from, so that nobody gets it by chance.
func freePort(t *testing.T) int {
	t.Helper()
	for range 100 {
		port := 20_000 + int((firstPort+ports.Add(1))%portCount)
		if l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			_ = l.Close()
			return port
		}
	}
	t.Fatal("no free port")
	return 0
}

// silentAddr is where connections are taken and nothing is answered.
func silentAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}

// foreignAddr is where something else than Redis says text to each request, and hangs up.
func foreignAddr(t *testing.T, text string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return // the test is over
			}
			_, _ = c.Read(make([]byte, 4<<10)) // what is left unread would make a reset of the end
			_, _ = io.WriteString(c, text)
			_ = c.Close()
		}
	}()
	return l.Addr().String()
}

// ctx outlives the test, for clean-up.
func (s *redisServer) ctx() context.Context { return context.WithoutCancel(s.t.Context()) }

func (s *redisServer) addr() string { return fmt.Sprintf("127.0.0.1:%d", s.port) }

func (s *redisServer) url() string {
	return s.tls.url(fmt.Sprintf("redis://picket:%s@%s/0", canary, s.addr()))
}

// newRedis starts a server, and makes a working directory whose pickets use it.
func newRedis(t *testing.T) (*redisServer, directory) {
	t.Helper()
	s := startRedis(t)
	d := newDirectory(t)
	d.store = s.url()
	return s, d
}

func (s *redisServer) signal(sig syscall.Signal) {
	s.t.Helper()
	if err := syscall.Kill(s.pid, sig); err != nil {
		s.t.Fatal(err)
	}
}

// left returns how long the record of key has to live.
func (s *redisServer) left(key string) time.Duration {
	s.t.Helper()
	d, err := s.PTTL(s.ctx(), record(key)).Result()
	if err != nil {
		s.t.Fatal(err)
	}
	return d
}

func record(key string) string { return "lock:{" + key + "}" }
