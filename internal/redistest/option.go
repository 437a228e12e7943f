package redistest

import (
	"fmt"
	"strconv"
)

// Option changes the server that [Start] runs.
type Option func(*settings)

// settings are what the options ask for.
type settings struct {
	binary   string
	password string
	lines    []string // of redis.conf
	tls      *TLS
	peer     *Server // whose certificates it has, if that has any
	master   *Server
	clock    bool
	sentinel bool
	cluster  bool
}

func (s *settings) add(format string, args ...any) {
	s.lines = append(s.lines, fmt.Sprintf(format, args...))
}

// Binary is the program to run, instead of the redis-server or valkey-server that PATH has.
func Binary(path string) Option {
	return func(s *settings) { s.binary = path }
}

// WithConfig adds lines to redis.conf, after all others: where a directive may stand once, the last one counts.
func WithConfig(lines ...string) Option {
	return func(s *settings) { s.lines = append(s.lines, lines...) }
}

// WithPassword protects the default user. [Server.Options] has the password, redis.conf too; no command line does.
func WithPassword(password string) Option {
	return func(s *settings) {
		s.password = password
		s.add("requirepass %s", strconv.Quote(password))
		s.add("masterauth %s", strconv.Quote(password))
	}
}

// WithACL adds a user, with the rules of ACL SETUSER, such as "~lock:* +@read". The default user stays, and is whom [Server.Options] logs in.
func WithACL(user, password, rules string) Option {
	return func(s *settings) { s.add("user %s on %s %s", user, strconv.Quote(">"+password), rules) }
}

// WithAOF keeps an append-only file; policy is "always", "everysec" or "no" (appendfsync).
func WithAOF(policy string) Option {
	return func(s *settings) {
		s.add("appendonly yes")
		s.add("appendfsync %s", policy)
	}
}

// WithMaxMemory limits the memory to a size such as "8mb"; policy is a maxmemory-policy, such as "noeviction".
func WithMaxMemory(size, policy string) Option {
	return func(s *settings) {
		s.add("maxmemory %s", size)
		s.add("maxmemory-policy %s", policy)
	}
}

// WithDebugCommands allows DEBUG.
func WithDebugCommands() Option {
	return func(s *settings) { s.add("enable-debug-command yes") }
}

// WithTLS has the server speak TLS only, with a certificate of a CA that is made for this server, its replicas, its sentinels and its cluster.
func WithTLS(tls TLS) Option {
	return func(s *settings) { s.tls = &tls }
}

// WithClock lets [Server.SetClock] move the server's wall clock. It needs Linux and a C compiler.
func WithClock() Option {
	return func(s *settings) { s.clock = true }
}

// ReplicaOf makes the server a replica. [Start] returns when the link to the master is up. It has the master's password and certificates.
func ReplicaOf(master *Server) Option {
	return func(s *settings) {
		s.master, s.peer = master, master
		s.add("replicaof 127.0.0.1 %d", master.port)
		if s.password == "" && master.settings.password != "" {
			WithPassword(master.settings.password)(s)
		}
	}
}
