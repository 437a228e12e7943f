package redisstore

import (
	"fmt"
	"strings"
	"time"

	"github.com/picket-go/picket"
)

// Option is a setting of New. Each option's comment states its default.
type Option func(*settings)

type settings struct {
	prefix   string
	replicas durability
	aof      durability
	report   func(*ReplicasError)
	apart    bool  // each claim travels in a call of its own
	err      error // the first option that made no sense
}

// durability is how many replicas must have a grant before it counts, and how long to wait for them.
type durability struct {
	count   int
	timeout time.Duration // 0: it was not asked for
}

func (d durability) asked() bool { return d.timeout > 0 }

func (s *settings) refuse(format string, args ...any) {
	if s.err == nil {
		s.err = fmt.Errorf("%w: %s", picket.ErrInvalid, fmt.Sprintf(format, args...))
	}
}

// WithPrefix sets what the Redis keys begin with; default "lock:". It must not contain braces: the first pair in a key is the lock's name.
func WithPrefix(prefix string) Option {
	return func(s *settings) {
		if strings.ContainsAny(prefix, "{}") {
			s.refuse("prefix %q contains a brace: the first pair of braces in a key must be the lock's name", prefix)
		}
		s.prefix = prefix
	}
}

const maxWait = time.Minute

func (s *settings) wait(option string, n, least int, timeout time.Duration) durability {
	if n < least {
		s.refuse("%s of %d: want at least %d", option, n, least)
	}
	if timeout < time.Millisecond || timeout > maxWait {
		s.refuse("timeout %s of %s is not between 1ms and %s", timeout, option, maxWait)
	}
	return durability{n, timeout}
}

// WithReplicas makes a grant count only when n replicas have acknowledged it within timeout (WAIT); else the error is a *ReplicasError. Default: none. A Locker asks again
// as after any error, and gives the grant back at last; an attempt of its own, and so the waiting, lasts half the TTL or a second at most.
//
// It narrows the window in which a failover forgets a lock and does not close it: Sentinel may promote a replica that was not among the n.
func WithReplicas(n int, timeout time.Duration) Option {
	return func(s *settings) { s.replicas = s.wait("WithReplicas", n, 1, timeout) }
}

// WithAOF makes a grant count only when the server, and n replicas beside it, have written it to their append-only files within timeout (WAITAOF, Redis 7.2 or later);
// else as with WithReplicas. n may be 0. Default: none.
func WithAOF(n int, timeout time.Duration) Option {
	return func(s *settings) { s.aof = s.wait("WithAOF", n, 0, timeout) }
}

// WithoutCombining makes each acquire and each release a call of its own. By default those that come while calls are under way leave together, up to 64 in one call: under
// load that is several times as fast. Without it, a claim waits for no other claim's call while the client's pool has connections left.
func WithoutCombining() Option {
	return func(s *settings) { s.apart = true }
}

// WithReplicaReport makes renewals ask the replicas too, and calls f when too few acknowledged one in time: the lease goes on, but a failover may forget how long. f must
// not block. Without WithReplicas and WithAOF there is nothing to report. Default: renewals do not ask.
func WithReplicaReport(f func(*ReplicasError)) Option {
	return func(s *settings) {
		if f == nil {
			s.refuse("WithReplicaReport(nil)")
		}
		s.report = f
	}
}
