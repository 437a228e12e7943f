package redistest

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// MasterName is what sentinels call the master.
const MasterName = "picket"

// electionLimit bounds the waits for sentinels. On a busy machine all three may stand for election at once; they try again after twice the failover-timeout, 12 s.
const electionLimit = startLimit + 24*time.Second

// SentinelConfig changes what [StartSentinels] runs.
type SentinelConfig struct {
	Replicas  int           // of the master; 0 is 1
	DownAfter time.Duration // of silence until a sentinel holds the master for dead; 0 is a second
	Servers   []Option      // of the master and the replicas, such as WithPassword; sentinels speak TLS if these do
	Sentinels []Option      // of the sentinels, such as WithPassword
}

// Sentinels are a master, its replicas, and three sentinels of which two must agree.
type Sentinels struct {
	t         testing.TB
	servers   []*Server // in the order of their start, the first master first
	sentinels []*Server
	password  string
}

// StartSentinels returns when replication runs and every sentinel knows the master, the replicas and the other sentinels.
func StartSentinels(t testing.TB, config SentinelConfig) *Sentinels {
	t.Helper()
	master := Start(t, config.Servers...)
	s := &Sentinels{t: t, servers: []*Server{master}, password: master.settings.password}
	for range max(1, config.Replicas) {
		s.servers = append(s.servers, Start(t, slices.Concat(config.Servers, []Option{ReplicaOf(master)})...))
	}
	if config.DownAfter == 0 {
		config.DownAfter = time.Second
	}
	for range 3 {
		sentinel := Start(t, slices.Concat(config.Sentinels, []Option{s.watch(master, config.DownAfter)})...)
		// The defaults, 2 s and 10 s, make the sentinels take as long to find each other.
		debug(sentinel, "publish-period", 100, "info-period", 500)
		// The default, 1 s, is also how long a sentinel waits until it connects again, and after a failover it counts from the last attempt to reach the dead
		// master: when DownAfter is over it would not have reached the new one, and hold that for dead too. Five of them are how old a replica's INFO may be
		// that is to be promoted, and it comes once a second.
		debug(sentinel, "ping-period", 400)
		// The default, 30 s, is how long a sentinel does nothing when it did not run for two seconds (+tilt).
		debug(sentinel, "tilt-period", 1000)
		s.sentinels = append(s.sentinels, sentinel)
	}
	for _, sentinel := range s.sentinels {
		sentinel.await("the sentinels do not find each other", func() error { return s.complete(sentinel) })
	}
	for _, sentinel := range s.sentinels {
		// Sentinels give each other four periods to tell of a promotion, and then make the promoted server a replica again. A busy machine needs the default.
		debug(sentinel, "publish-period", 2000)
	}
	return s
}

// debug sets the sentinel's inner periods, in milliseconds. Servers before 7.0 have no such command, and are only slower.
func debug(sentinel *Server, periods ...any) {
	_ = sentinel.admin.Do(sentinel.context(), append([]any{"sentinel", "debug"}, periods...)...).Err()
}

func (s *Sentinels) watch(master *Server, downAfter time.Duration) Option {
	return func(o *settings) {
		o.sentinel, o.peer = true, master
		o.add("sentinel monitor %s 127.0.0.1 %d 2", MasterName, master.port)
		o.add("sentinel down-after-milliseconds %s %d", MasterName, downAfter.Milliseconds())
		o.add("sentinel failover-timeout %s 6000", MasterName)
		if s.password != "" {
			o.add("sentinel auth-pass %s %s", MasterName, strconv.Quote(s.password))
		}
	}
}

// complete reports what a sentinel does not know yet.
func (s *Sentinels) complete(sentinel *Server) error {
	state := redis.NewMapStringStringCmd(sentinel.context(), "sentinel", "master", MasterName)
	if err := sentinel.admin.Process(sentinel.context(), state); err != nil {
		return err
	}
	known := state.Val()
	if known["num-slaves"] != strconv.Itoa(len(s.servers)-1) || known["num-other-sentinels"] != strconv.Itoa(len(s.sentinels)-1) || known["flags"] != "master" {
		return fmt.Errorf("it knows %s replicas and %s sentinels of a %s", known["num-slaves"], known["num-other-sentinels"], known["flags"])
	}
	return nil
}

// Addrs are the sentinels' addresses.
func (s *Sentinels) Addrs() []string {
	var addrs []string
	for _, sentinel := range s.sentinels {
		addrs = append(addrs, sentinel.Addr())
	}
	return addrs
}

// Options are new ones on each call: go-redis' defaults, the addresses, the passwords and the TLS configuration, which is for servers and sentinels.
func (s *Sentinels) Options() *redis.FailoverOptions {
	return &redis.FailoverOptions{
		MasterName: MasterName, SentinelAddrs: s.Addrs(), SentinelPassword: s.sentinels[0].settings.password, Password: s.password, TLSConfig: s.servers[0].clientTLS(),
	}
}

// FailoverClient follows the master, and is closed at the end of the test.
func (s *Sentinels) FailoverClient(t testing.TB) *redis.Client {
	t.Helper()
	client := redis.NewFailoverClient(s.Options())
	t.Cleanup(func() { _ = client.Close() }) // The test may have closed it.
	return client
}

// Master is whom all sentinels name at present. On a busy machine they may promote another at any time, as they may anywhere.
func (s *Sentinels) Master() *Server {
	s.t.Helper()
	return s.await("the sentinels do not agree on a master", func(*Server) error { return nil })
}

// await waits until all sentinels name one master, and it is as it should be. It asks the sentinels each time: they may have promoted another meanwhile.
func (s *Sentinels) await(what string, is func(master *Server) error) (master *Server) {
	s.t.Helper()
	s.sentinels[0].awaitFor(electionLimit, what, func() (err error) {
		if master, err = s.agreed(); err == nil {
			err = is(master)
		}
		return err
	})
	return master
}

// agreed is the server that all sentinels give to clients as the master.
func (s *Sentinels) agreed() (master *Server, err error) {
	for _, sentinel := range s.sentinels {
		named, err := s.named(sentinel)
		if err != nil {
			return nil, err
		}
		if master != nil && named != master {
			return nil, fmt.Errorf("one names %s, another %s", master.Addr(), named.Addr())
		}
		master = named
	}
	return master, nil
}

// Replicas are all servers but the master, those that are down too.
func (s *Sentinels) Replicas() []*Server {
	s.t.Helper()
	master := s.Master()
	var replicas []*Server
	for _, server := range s.servers {
		if server != master {
			replicas = append(replicas, server)
		}
	}
	return replicas
}

// named is the server that a sentinel gives to clients as the master.
func (s *Sentinels) named(sentinel *Server) (*Server, error) {
	addr, err := sentinel.admin.Do(sentinel.context(), "sentinel", "get-master-addr-by-name", MasterName).StringSlice()
	if err != nil {
		return nil, err
	}
	for _, server := range s.servers {
		if strings.Join(addr, ":") == server.Addr() {
			return server, nil
		}
	}
	return nil, fmt.Errorf("the sentinel names %s", addr)
}

// WaitPromoted waits until all sentinels name another master than old, and it takes writes.
func (s *Sentinels) WaitPromoted(old *Server) *Server {
	s.t.Helper()
	return s.await("no replica is promoted", func(master *Server) error {
		if master == old {
			return errors.New("the old master is still named")
		}
		info, err := master.info("replication")
		if err == nil && info["role"] != "master" {
			err = fmt.Errorf("%s is a %s", master.Addr(), info["role"])
		}
		return err
	})
}

// bogus is no server's password.
const bogus = "picket-replication-is-cut"

// CutReplication cuts the replicas off from the master, which knows it and goes on; sentinels still reach all, and promote one when the master dies. What
// clients write from now on is lost then. A stopped replica (SIGSTOP) would not lose it: the kernel keeps the bytes for it.
func (s *Sentinels) CutReplication() {
	s.t.Helper()
	master := s.Master()
	for _, replica := range s.Replicas() {
		replica.must(replica.admin.ConfigSet(replica.context(), "masterauth", bogus).Err())
	}
	master.must(master.admin.Do(master.context(), "client", "kill", "type", "replica").Err())
	master.await("a replica stays connected", func() error { return connected(master, 0) })
}

// HealReplication ends CutReplication, at every server that runs.
func (s *Sentinels) HealReplication() {
	s.t.Helper()
	for _, server := range s.servers {
		if !server.process.gone() {
			server.must(server.admin.ConfigSet(server.context(), "masterauth", s.password).Err())
		}
	}
}

// WaitReplicas waits until n replicas are connected with the master, whichever that is at the end, and have its data.
func (s *Sentinels) WaitReplicas(n int) {
	s.t.Helper()
	s.await("replicas are missing", func(master *Server) error { return connected(master, n) })
}

func connected(master *Server, n int) error {
	info, err := master.info("replication")
	if err != nil {
		return err
	}
	online := 0
	for key, value := range info {
		if strings.HasPrefix(key, "slave") && strings.Contains(value, "state=online") {
			online++
		}
	}
	if online != n || n == 0 && info["connected_slaves"] != "0" {
		return fmt.Errorf("%d replicas are connected with %s, and %d wanted", online, master.Addr(), n)
	}
	return nil
}
