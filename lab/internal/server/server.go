// Package server runs a Redis server for as long as its caller lives, and asks it what it has done.
package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// ErrMissing says which program is not installed, and how to install it.
var ErrMissing = errors.New("not in PATH: install it with \"apt-get install -y redis-server redis-tools\" or \"brew install redis\"")

const (
	host       = "127.0.0.1"
	startLimit = 10 * time.Second
)

// Server is a running redis-server without persistence on a free port of 127.0.0.1.
type Server struct {
	cmd    *exec.Cmd
	port   int
	bus    int // free too, for a node of a Cluster
	gone   chan struct{}
	output bytes.Buffer // complete when gone is closed
	admin  *redis.Client

	Addr    string
	Version string
}

// Find returns the path of the first of these programs that is installed, or ErrMissing.
func Find(names ...string) (string, error) {
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s is %w", names[0], ErrMissing)
}

// Start runs a server and returns when it answers. On Linux it also dies when this process is killed.
func Start(ctx context.Context) (*Server, error) { return startAs(ctx, alone) }

// role is what else a server is told that has these ports.
type role func(port, bus int) []string

func alone(int, int) []string { return []string{"--dir", os.TempDir()} }

func startAs(ctx context.Context, role role) (*Server, error) {
	binary, err := Find("redis-server", "valkey-server")
	if err != nil {
		return nil, err
	}
	for range 5 { // Another process may take a port first.
		var s *Server
		if s, err = start(ctx, binary, role); err == nil {
			return s, nil
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, err
}

func start(ctx context.Context, binary string, role role) (*Server, error) {
	port, bus, err := freePorts(ctx)
	if err != nil {
		return nil, err
	}
	s := &Server{gone: make(chan struct{}), Addr: net.JoinHostPort(host, strconv.Itoa(port)), port: port, bus: bus}
	args := append([]string{"--port", strconv.Itoa(port), "--bind", host, "--save", "", "--appendonly", "no", "--maxclients", "4000"}, role(port, bus)...)
	s.cmd = exec.Command(binary, args...) //nolint:gosec,noctx // found in PATH; a server must outlive an interrupted ctx until its clients have left
	s.cmd.Stdout, s.cmd.Stderr = &s.output, &s.output
	s.cmd.SysProcAttr = attributes()
	if err := s.launch(); err != nil {
		return nil, err
	}
	s.admin = redis.NewClient(&redis.Options{Addr: s.Addr, Protocol: 2, DisableIdentity: true, PoolSize: 1, MaxRetries: -1})
	if err := s.await(ctx); err != nil {
		s.Close()
		return nil, fmt.Errorf("%s did not start: %w\n%s", binary, err, s.output.Bytes())
	}
	return s, nil
}

// freePorts are two: without being told, a node of a Cluster takes its port and 10,000 more for its bus, which may not exist.
func freePorts(ctx context.Context) (port, bus int, err error) {
	for _, p := range []*int{&port, &bus} {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(host, "0"))
		if err != nil {
			return 0, 0, err
		}
		defer l.Close() //nolint:errcheck // nothing was written; open until the other is found too
		*p = l.Addr().(*net.TCPAddr).Port
	}
	return port, bus, nil
}

// launch starts the process on a thread that lives as long as it does: to the kernel, the parent whose death kills a child is the thread that forked it (prctl(2),
// PR_SET_PDEATHSIG).
func (s *Server) launch() error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := s.cmd.Start()
		started <- err
		if err == nil {
			_ = s.cmd.Wait() // How it ended is in its output.
			close(s.gone)
		}
	}()
	return <-started
}

func (s *Server) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-s.gone:
			return errors.New("it ended at once")
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		// go-redis' pool gives no connection for a while after it failed to dial, so it is asked when there is something to find.
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", s.Addr)
		if err != nil {
			continue
		}
		_ = conn.Close()
		info, err := s.info(ctx, "server")
		if err != nil {
			continue
		}
		if info["process_id"] != strconv.Itoa(s.cmd.Process.Pid) {
			return fmt.Errorf("its port belongs to process %s", info["process_id"])
		}
		s.Version = "Redis " + info["redis_version"]
		if v := info["valkey_version"]; v != "" {
			s.Version = "Valkey " + v
		}
		return nil
	}
}

// Addrs is its address, as a Cluster has several.
func (s *Server) Addrs() []string { return []string{s.Addr} }

// Close ends the server. It leaves no files, unless it is a node of a Cluster.
func (s *Server) Close() {
	_ = s.admin.Close()
	_ = s.cmd.Process.Kill() // It fails only when the server is gone already.
	<-s.gone
}

// Flush empties the server.
func (s *Server) Flush(ctx context.Context) error { return s.admin.FlushAll(ctx).Err() }

// Calls counts the calls of each command since the start, in small letters. Those in scripts count too.
func (s *Server) Calls(ctx context.Context) (map[string]int64, error) {
	info, err := s.info(ctx, "commandstats")
	if err != nil {
		return nil, err
	}
	calls := map[string]int64{}
	for key, value := range info {
		name, isCommand := strings.CutPrefix(key, "cmdstat_")
		first, _, _ := strings.Cut(strings.TrimPrefix(value, "calls="), ",")
		if n, err := strconv.ParseInt(first, 10, 64); isCommand && err == nil {
			calls[name] = n
		}
	}
	return calls, nil
}

func (s *Server) info(ctx context.Context, section string) (map[string]string, error) {
	text, err := s.admin.Info(ctx, section).Result()
	if err != nil {
		return nil, err
	}
	info := map[string]string{}
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info[key] = value
		}
	}
	return info, nil
}
