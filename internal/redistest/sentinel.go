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

// SentinelConfig changes what [StartSentinels] runs.
type SentinelConfig struct {
	Replicas  int           // of the master; 0 is 1
	DownAfter time.Duration // of silence until a sentinel holds the master for dead; 0 is a second
	Servers   []Option      // of the master and the replicas, such as WithPassword
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
		sentinel := Start(t, s.watch(master, config.DownAfter))
		// The defaults, 2 s and 10 s, make the sentinels take as long to find each other. Servers before 7.0 have no such command, and are only slower.
		_ = sentinel.admin.Do(sentinel.context(), "sentinel", "debug", "publish-period", 100, "info-period", 500).Err()
		s.sentinels = append(s.sentinels, sentinel)
	}
	for _, sentinel := range s.sentinels {
		sentinel.await("the sentinels do not find each other", func() error { return s.complete(sentinel) })
	}
	return s
}

func (s *Sentinels) watch(master *Server, downAfter time.Duration) Option {
	return func(o *settings) {
		o.sentinel = true
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

// Options are new ones on each call: go-redis' defaults, the addresses and the password.
func (s *Sentinels) Options() *redis.FailoverOptions {
	return &redis.FailoverOptions{MasterName: MasterName, SentinelAddrs: s.Addrs(), Password: s.password}
}

// FailoverClient follows the master, and is closed at the end of the test.
func (s *Sentinels) FailoverClient(t testing.TB) *redis.Client {
	t.Helper()
	client := redis.NewFailoverClient(s.Options())
	t.Cleanup(func() { _ = client.Close() }) // The test may have closed it.
	return client
}

// Master is whom the first sentinel names.
func (s *Sentinels) Master() *Server {
	s.t.Helper()
	master, err := s.named(s.sentinels[0])
	if err != nil {
		s.t.Fatal(err)
	}
	return master
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
	var promoted *Server
	for _, sentinel := range s.sentinels {
		sentinel.await("no replica is promoted", func() (err error) {
			if promoted, err = s.named(sentinel); err == nil && promoted == old {
				err = errors.New("the old master is still named")
			}
			return err
		})
	}
	promoted.await("it does not become the master", func() error {
		info, err := promoted.info("replication")
		if err == nil && info["role"] != "master" {
			err = fmt.Errorf("it is a %s", info["role"])
		}
		return err
	})
	return promoted
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

// WaitReplicas waits until n replicas are connected with the master, and have its data.
func (s *Sentinels) WaitReplicas(n int) {
	s.t.Helper()
	master := s.Master()
	master.await("replicas are missing", func() error { return connected(master, n) })
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
		return fmt.Errorf("%d replicas are connected, and %d wanted", online, n)
	}
	return nil
}
