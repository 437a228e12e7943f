//go:build unix

package main

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"
)

// cluster is a real one. Users and permissions are those of startRedis.
type cluster struct {
	t      *testing.T
	nodes  []*redisServer // the masters, and then a replica of each, if there are any
	failed *redisServer   // if one has
}

const masters, slots = 3, 16384

// clusterConfig is for a cluster that takes no busy server for dead, until fail.
const clusterConfig = "cluster-enabled yes\ncluster-node-timeout 60000\ncluster-replica-validity-factor 0\nrepl-diskless-sync-delay 0\n" +
	"masteruser admin\nmasterauth " + canary

// startCluster returns when each node serves, with a working directory whose pickets use the cluster.
func startCluster(t *testing.T, size int, cert *certificate, lines ...string) (*cluster, directory) {
	t.Helper()
	c := &cluster{t: t}
	var buses []int
	for range size {
		buses = append(buses, freePort(t))
		c.nodes = append(c.nodes, startRedisWith(t, cert, append([]string{clusterConfig, fmt.Sprint("cluster-port ", buses[len(buses)-1])}, lines...)...))
	}
	for i, n := range c.nodes {
		n.must(n.Do(n.ctx(), "cluster", "set-config-epoch", i+1)) // else all begin with the same, and settle that when they meet
		if i < masters {
			n.must(n.ClusterAddSlotsRange(n.ctx(), i*slots/masters, (i+1)*slots/masters-1))
		}
		for j, other := range c.nodes[:i] {
			n.must(n.Do(n.ctx(), "cluster", "meet", "127.0.0.1", other.port, buses[j]))
		}
	}
	for i, n := range c.nodes[masters:] {
		eventually(t, "a replica knows its master", func() bool { return n.ClusterReplicate(n.ctx(), c.nodes[i].id()).Err() == nil })
	}
	for _, n := range c.nodes {
		eventually(t, "a node serves", n.serves(size))
	}
	d := newDirectory(t)
	d.store = cert.url(clusterURL(c.addrs()...))
	return c, d
}

// serves reports whether a node of a cluster knows all others and takes writes, or has what its master has.
func (s *redisServer) serves(size int) func() bool {
	return func() bool {
		state, replication := s.ClusterInfo(s.ctx()).Val(), s.Info(s.ctx(), "replication").Val()
		return strings.Contains(state, "cluster_state:ok") && strings.Contains(state, fmt.Sprintf("cluster_known_nodes:%d\r", size)) &&
			(strings.Contains(replication, "role:master") || strings.Contains(replication, "master_link_status:up"))
	}
}

func (s *redisServer) id() string { return s.ClusterMyID(s.ctx()).Val() }

// must is for what cannot fail.
func (s *redisServer) must(cmd redis.Cmder) {
	s.t.Helper()
	if err := cmd.Err(); err != nil {
		s.t.Fatalf("%v: %v", cmd, err)
	}
}

func (c *cluster) addrs() (all []string) {
	for _, n := range c.nodes {
		all = append(all, n.addr())
	}
	return all
}

func clusterURL(addrs ...string) string {
	return fmt.Sprintf("redis+cluster://picket:%s@%s", canary, strings.Join(addrs, ","))
}

// master waits until a node serves key: the others name another one for it.
func (c *cluster) master(key string) (master *redisServer) {
	c.t.Helper()
	eventually(c.t, "a node serves "+key, func() bool {
		i := slices.IndexFunc(c.nodes, func(n *redisServer) bool { return n != c.failed && n.Exists(n.ctx(), record(key)).Err() == nil })
		if i >= 0 {
			master = c.nodes[i]
		}
		return i >= 0
	})
	return master
}

// fail sends n a signal that keeps it from answering. From now on the others find that out quickly.
func (c *cluster) fail(n *redisServer, sig syscall.Signal) {
	c.t.Helper()
	for _, node := range c.nodes {
		node.must(node.ConfigSet(node.ctx(), "cluster-node-timeout", "1000"))
	}
	n.signal(sig)
	c.failed = n
}

// spread returns a key for each master.
func (c *cluster) spread() (keys []string) {
	c.t.Helper()
	var seen []*redisServer
	for i := 0; len(seen) < masters; i++ {
		key := fmt.Sprint("job/", i)
		if m := c.master(key); !slices.Contains(seen, m) {
			seen, keys = append(seen, m), append(keys, key)
		}
	}
	return keys
}

// replicated waits until the replica of key's master has all that the master has: it gets it in the order in which it was written.
func (c *cluster) replicated(key string) {
	c.t.Helper()
	n := c.master(key)
	pipe := n.Pipeline() // WAIT counts what its own connection wrote
	pipe.Set(n.ctx(), record(key)+":test", "", 0)
	replicas := pipe.Do(n.ctx(), "wait", 1, patience.Milliseconds())
	if _, err := pipe.Exec(n.ctx()); err != nil || replicas.Val() != int64(1) {
		c.t.Fatalf("%v replicas, %v", replicas.Val(), err)
	}
}

// renewed waits for a renewal of key, which nothing else makes live longer.
func (c *cluster) renewed(key string) {
	c.t.Helper()
	last := c.master(key).left(key)
	eventually(c.t, "a renewal of "+key, func() bool {
		left := c.master(key).left(key)
		if left < 0 {
			c.t.Fatalf("%s is free", key)
		}
		rose := left > last
		last = left
		return rose
	})
}

// move gives the slot of key to another master. In the middle of it, when who asks for a key that is not there is sent to the other one, it does what between says.
func (c *cluster) move(key string, between func()) {
	c.t.Helper()
	source := c.master(key)
	target := c.nodes[(slices.Index(c.nodes, source)+1)%masters]
	slot := int(source.ClusterKeySlot(source.ctx(), record(key)).Val())
	target.must(target.Do(target.ctx(), "cluster", "setslot", slot, "importing", source.id()))
	source.must(source.Do(source.ctx(), "cluster", "setslot", slot, "migrating", target.id()))
	between()
	migrate := []any{"migrate", "127.0.0.1", target.port, "", 0, 5000, "auth2", "admin", canary, "keys"}
	for _, k := range source.ClusterGetKeysInSlot(source.ctx(), slot, 1000).Val() {
		migrate = append(migrate, k)
	}
	source.must(source.Do(source.ctx(), migrate...))
	for _, n := range []*redisServer{target, source} {
		n.must(n.Do(n.ctx(), "cluster", "setslot", slot, "node", target.id()))
	}
}
