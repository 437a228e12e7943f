package redistest

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// startLimit bounds every wait for a process: far more than it takes, because a busy machine is no fault of the server.
const startLimit = 20 * time.Second

// Server is a real server process. What a method cannot do ends the test. One goroutine at a time may stop, kill or restart it.
type Server struct {
	t        testing.TB
	settings settings
	dir      string
	port     int
	busPort  int // of a cluster's node
	clock    *clock
	tls      *certificates
	process  *process
	admin    *redis.Client
	shared   bool
	cluster  *Cluster // whose node it is
}

// Start runs a server without data, which saves nothing unless asked, and returns when it answers.
func Start(t testing.TB, opts ...Option) *Server {
	t.Helper()
	s := &Server{t: t, dir: t.TempDir()}
	for _, opt := range opts {
		opt(&s.settings)
	}
	s.run()
	t.Cleanup(s.end)
	if s.settings.master != nil {
		s.awaitReplication()
	}
	return s
}

// run starts a new server on a port that was free a moment ago, and takes another one when it is not any more.
func (s *Server) run() {
	s.t.Helper()
	if s.settings.binary == "" {
		s.settings.binary = findServer(s.t)
	}
	if s.settings.clock {
		s.clock = newClock(s.t)
	}
	if s.settings.peer != nil {
		s.tls = s.settings.peer.tls
	} else if s.settings.tls != nil {
		s.tls = issueCertificates(s.t, s.dir, *s.settings.tls)
	}
	var err error
	for range 5 {
		s.port = freePort(s.t)
		if s.settings.cluster {
			s.busPort = freePort(s.t) // The default is 10,000 above, where systems take the client's end of a connection from.
		}
		if err = os.WriteFile(s.configFile(), []byte(s.config()), 0o600); err != nil {
			s.t.Fatal(err)
		}
		if err = s.launch(); !errors.Is(err, errPort) {
			break
		}
	}
	s.must(err)
}

// errPort is what a start comes to when the port is taken, or when redis.conf is wrong; only the output tells.
var errPort = errors.New("the server has not got its port")

// freePort chooses below the range that systems take the client's end of a connection from: a server that is down must not find its port lent out, and a
// client that dials a port in that range can even be connected to itself (RFC 9293, simultaneous open).
func freePort(t testing.TB) int {
	t.Helper()
	for range 100 {
		port := 20_000 + rand.IntN(12_000)
		if l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			_ = l.Close()
			return port
		}
	}
	t.Fatal("no free port between 20000 and 32000")
	return 0
}

func (s *Server) configFile() string { return filepath.Join(s.dir, "redis.conf") }

func (s *Server) outputFile() string { return filepath.Join(s.dir, "output") }

// config is the text of redis.conf. Passwords stand there and not among the arguments, where ps would show them.
func (s *Server) config() string {
	lines := []string{"bind 127.0.0.1", "dir " + strconv.Quote(s.dir), "daemonize no"}
	if s.tls == nil {
		lines = append(lines, fmt.Sprint("port ", s.port))
	} else {
		lines = append(lines, "port 0", fmt.Sprint("tls-port ", s.port))
		lines = append(lines, s.tls.config()...)
	}
	if !s.settings.sentinel {
		lines = append(lines, `save ""`, "repl-diskless-sync-delay 0")
	}
	if s.settings.cluster {
		lines = append(lines, "cluster-enabled yes", fmt.Sprint("cluster-port ", s.busPort))
	}
	return strings.Join(append(lines, s.settings.lines...), "\n") + "\n"
}

// launch runs the server with the files it has, and returns when it answers.
func (s *Server) launch() error {
	output, err := os.Create(s.outputFile())
	if err != nil {
		return err
	}
	defer func() { _ = output.Close() }()                  // The child has its own.
	cmd := exec.Command(s.settings.binary, s.configFile()) //nolint:gosec,noctx // The test chose it, and end kills it.
	if s.settings.sentinel {
		cmd.Args = append(cmd.Args, "--sentinel")
	}
	cmd.Stdout, cmd.Stderr = output, output
	cmd.Env = append(os.Environ(), s.clock.environment()...)
	if s.process, err = startProcess(cmd); err != nil {
		return err
	}
	s.admin = redis.NewClient(s.adminOptions())
	if err := s.awaitReady(); err != nil {
		s.halt()
		return fmt.Errorf("%w\n%s", err, s.output())
	}
	return nil
}

// awaitReady waits until the server answers, and checks that it is ours: another process may have taken the port first.
func (s *Server) awaitReady() error {
	var last error
	for deadline := time.Now().Add(startLimit); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		if s.process.gone() {
			return fmt.Errorf("%w: it ended at its start", errPort)
		}
		// go-redis' pool gives no connection for a second after it failed to dial, so it is asked when there is something to find.
		conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(s.context(), "tcp", s.Addr())
		if err != nil {
			last = err
			continue
		}
		_ = conn.Close()
		info, err := s.info("server")
		if pid := info["process_id"]; err == nil && pid != strconv.Itoa(s.PID()) {
			return fmt.Errorf("%w: %d belongs to process %s", errPort, s.port, pid)
		} else if err == nil {
			err = s.admin.Ping(s.context()).Err()
		}
		if err == nil {
			return nil
		}
		last = err
	}
	return fmt.Errorf("the server does not answer: %w", last)
}

// halt kills the process, whatever state it is in.
func (s *Server) halt() {
	s.process.kill()
	_ = s.admin.Close()
}

// end is the cleanup of a test.
func (s *Server) end() {
	s.halt()
	if s.t.Failed() {
		s.t.Logf("Redis at %s wrote:\n%s", s.Addr(), s.output())
	}
}

// output is the end of what the process wrote.
func (s *Server) output() string {
	text, err := os.ReadFile(s.outputFile())
	if err != nil {
		return err.Error()
	}
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-30):], []byte("\n")))
}

// context outlives the test, because its cleanup asks the server too. The client's time limits bound each call.
func (s *Server) context() context.Context { return context.WithoutCancel(s.t.Context()) }

// Addr is where the server listens, as host:port.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// PID is the process of the server.
func (s *Server) PID() int { return s.process.cmd.Process.Pid }

// Options are new ones on each call: go-redis' defaults, the address, the default user's password and, with TLS, a configuration that trusts the server's CA.
func (s *Server) Options() *redis.Options {
	return &redis.Options{Addr: s.Addr(), Password: s.settings.password, TLSConfig: s.clientTLS()}
}

func (s *Server) clientTLS() *tls.Config {
	if s.tls == nil {
		return nil
	}
	return s.tls.client.Clone()
}

// Client logs in as the default user, and is closed at the end of the test.
func (s *Server) Client(t testing.TB) *redis.Client {
	t.Helper()
	return newClient(t, s.Options())
}

func newClient(t testing.TB, opts *redis.Options) *redis.Client {
	t.Helper()
	client := redis.NewClient(opts)
	t.Cleanup(func() { _ = client.Close() }) // The test may have closed it.
	return client
}

// adminOptions are those of the server's own client: it must not wait for long, and not try again what failed.
func (s *Server) adminOptions() *redis.Options {
	opts := s.Options()
	if opts.TLSConfig != nil {
		opts.TLSConfig.Time = func() time.Time { return time.Now().Add(-36 * time.Hour) } // An expired certificate is good for us.
	}
	opts.Protocol = 2
	opts.DisableIdentity = true
	opts.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	opts.PoolSize = 1
	opts.MaxRetries = -1
	opts.DialerRetries = 1
	opts.DialTimeout = 5 * time.Second
	opts.ReadTimeout = 5 * time.Second
	return opts
}
