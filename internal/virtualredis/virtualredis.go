// Package virtualredis runs a Redis in memory inside a [testing/synctest] bubble: hours of waiting and expiry take milliseconds, and time is exact.
//
// It is miniredis 2.40 and not Redis, so it finds mistakes and proves nothing. What it does otherwise than redis-server 7.0.15, found by asking both:
//
//   - A number that Lua turns into text (tostring, "..", %s) keeps all digits. Redis keeps 14 of them: 1796965144000002 becomes 1.796965144e+15. Only
//     string.format('%.0f') and numbers given to redis.call are the same on both.
//   - An error that a script does not catch begins with "ERR Error compiling script", whatever it is. On Redis it begins with its own code, such as WRONGTYPE.
//     What redis.pcall returns has the code on both.
//   - The Lua is newer: it has goto. It lacks the libraries bit, struct and cmsgpack, the line "#!lua", redis.acl_check_cmd and redis.REDIS_VERSION.
//   - It has no ACL, CONFIG, DEBUG, FUNCTION, FAILOVER, LATENCY, READONLY, RESET, ROLE, REPLICAOF, SHUTDOWN, SLOWLOG, SPUBLISH, SSUBSCRIBE, WAITAOF, no
//     SET IFEQ, no CLIENT but SETNAME and GETNAME, no SCRIPT KILL, no OBJECT ENCODING or FREQ, no CLUSTER INFO, and of INFO only clients and stats.
//     WAIT answers 0 at once. COMMAND COUNT answers as COMMAND.
//   - No memory limit, no eviction, no persistence, no replication, and no limit of time for a script.
//   - PEXPIRE LT sets a key that has expired in the same call; nothing expires by itself, and every command removes what is out of date before it runs.
//   - It writes to a subscriber under the lock of all commands, see [Server.Client].
package virtualredis

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/picket-go/picket/internal/redistest"
)

// Server is a server whose clock is the bubble's. It has no port: only its own clients reach it.
type Server struct {
	*miniredis.Miniredis
}

// Start must be called in a bubble. The server closes its connections when the bubble's test ends.
func Start(t testing.TB) *Server {
	t.Helper()
	s := &Server{miniredis.NewMiniRedis()}
	s.ClockTTL(true)
	if err := s.connect(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// connect makes the server run: the first connection does.
func (s *Server) connect() error {
	conn, err := s.Dial()
	if err != nil {
		return err
	}
	return conn.Close()
}

// Proxy is a way to the server that can fail, as [redistest.Proxy] describes: one for each holder that is to be cut off alone.
func (s *Server) Proxy(t testing.TB, seed uint64) *redistest.Proxy {
	t.Helper()
	return redistest.NewProxy(t, s.Dial, seed)
}

// Client is closed at the end of the test, and has a way of its own that never fails. That way is a proxy too, because it has the buffer that a pipe lacks:
// miniredis writes to subscribers under its lock, so one of them that does not read would stop the server, and the bubble's clock.
func (s *Server) Client(t testing.TB) *redis.Client {
	t.Helper()
	return s.ClientVia(t, s.Proxy(t, 0))
}

// ClientVia is a client whose connections go through a proxy of this server. Its limits are a second, which is short beside leases and costs no real time.
func (s *Server) ClientVia(t testing.TB, p *redistest.Proxy) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{
		Dialer: func(context.Context, string, string) (net.Conn, error) {
			client, proxied := net.Pipe()
			if err := p.Serve(proxied); err != nil {
				return nil, err
			}
			return client, nil
		},
		DialTimeout: time.Second, ReadTimeout: time.Second, WriteTimeout: time.Second,
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	t.Cleanup(func() { _ = client.Close() }) // The test may have closed it.
	return client
}
