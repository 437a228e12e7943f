package redistest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// slotCount is how many hash slots every cluster has.
const slotCount = 16384

// calmTimeout is the node timeout while a test has not touched a server: on a busy machine a healthy one may be silent for longer than a second, and another
// would be promoted for it.
const calmTimeout = time.Minute

// ClusterConfig changes what [StartCluster] runs.
type ClusterConfig struct {
	Masters     int           // 0 is 3; with fewer nobody is promoted, because a majority of the masters must be alive and agree
	Replicas    int           // of each master; 0 is 1, -1 is none
	NodeTimeout time.Duration // of silence until a node holds another for dead; 0 is a second
	Servers     []Option      // of all servers, such as WithPassword
}

func (c *ClusterConfig) complete() {
	c.Masters = cmp.Or(c.Masters, 3)
	c.Replicas = max(0, cmp.Or(c.Replicas, 1))
	c.NodeTimeout = cmp.Or(c.NodeTimeout, time.Second)
}

// Cluster is a Redis Cluster whose servers tests may stop, kill and restart: each keeps its address, and its nodes.conf. One goroutine at a time may use it.
type Cluster struct {
	t       testing.TB
	config  ClusterConfig
	servers []*Server // the first masters, and then their replicas
	ids     map[string]*Server
	limit   time.Duration // of the waits
	rouse   sync.Once
}

// StartCluster returns when every node knows all others, every slot is served, and every replica is in sync. That takes two seconds, because a master says
// CLUSTERDOWN for so long after each start. It needs Redis 7.0 or Valkey.
//
// NodeTimeout is in force from the first Stop, Kill, Shutdown or Restart of one of its servers, and a minute before that. From then on a busy machine may make
// the cluster promote whom it likes, as it may anywhere: a test that must not have that gives a longer NodeTimeout.
func StartCluster(t testing.TB, config ClusterConfig) *Cluster {
	t.Helper()
	config.complete()
	c := &Cluster{t: t, config: config, ids: map[string]*Server{}}
	// Who stands for election in vain tries again after four node timeouts, and after 4 s at least (clusterHandleSlaveFailover in cluster.c). These are six tries.
	// A test with a very long timeout wants no promotion.
	c.limit = startLimit + 24*min(max(config.NodeTimeout, time.Second), 5*time.Second)
	for range config.Masters * (1 + config.Replicas) {
		server := Start(t, slices.Concat([]Option{c.node()}, config.Servers)...)
		server.cluster = c
		id, err := server.admin.Do(server.context(), "cluster", "myid").Text()
		server.must(err)
		c.servers, c.ids[id] = append(c.servers, server), server
	}
	c.form()
	c.setNodeTimeout(calmTimeout)
	return c
}

func (c *Cluster) node() Option {
	return func(s *settings) {
		s.cluster = true
		if len(c.servers) > 0 {
			s.peer = c.servers[0] // One CA for all.
		}
		s.add("cluster-node-timeout %d", c.config.NodeTimeout.Milliseconds())
		// With the default, 10, a replica that has not heard of its master for long is not promoted. On a busy machine that would be by chance.
		s.add("cluster-replica-validity-factor 0")
	}
}

// form makes a cluster of the servers.
func (c *Cluster) form() {
	c.t.Helper()
	masters := c.config.Masters
	for i, server := range c.servers {
		server.command("cluster", "set-config-epoch", i+1) // Two masters with the same one would first have to find that out.
		if i < masters {
			server.command("cluster", "addslotsrange", i*slotCount/masters, (i+1)*slotCount/masters-1)
		}
		// Each meets all that are there already. When one meets all, the others must hear of each other from it, which takes longer.
		for _, other := range c.servers[:i] {
			server.command("cluster", "meet", "127.0.0.1", other.port, other.busPort)
		}
	}
	for i, server := range c.servers[masters:] {
		master := c.id(c.servers[i%masters])
		server.await("it does not know its master", func() error {
			return server.admin.Do(server.context(), "cluster", "replicate", master).Err()
		})
	}
	c.await("the cluster is not complete", c.whole)
	c.WaitInSync()
}

// whole reports what is missing of a complete cluster. It asks for no certain masters: on a busy machine another may have been promoted meanwhile.
func (c *Cluster) whole(views []*view) error {
	for _, v := range views {
		if len(v.members) != len(c.servers) || len(v.masters()) != c.config.Masters {
			return fmt.Errorf("%s knows %d nodes and %d masters", v.by.Addr(), len(v.members), len(v.masters()))
		}
		for id, member := range v.members {
			if !member.linked || member.has("handshake") || member.has("fail") || member.has("fail?") {
				return fmt.Errorf("%s holds %s for %q, linked: %v", v.by.Addr(), id, member.flags, member.linked)
			}
		}
	}
	return serve(views)
}

// serve reports a node that says CLUSTERDOWN. It does not ask those that take over a slot: whose source has died says so until the migration is given up,
// because it does not hear of the slot's new owner.
func serve(views []*view) error {
	for _, v := range views {
		if len(v.importing) > 0 {
			continue
		}
		text, err := v.by.admin.ClusterInfo(v.by.context()).Result()
		if err == nil && !strings.Contains(text, "cluster_state:ok") {
			state, _, _ := strings.Cut(text, "\n")
			err = fmt.Errorf("%s says %s", v.by.Addr(), strings.TrimSpace(state))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) id(server *Server) string {
	for id, s := range c.ids {
		if s == server {
			return id
		}
	}
	c.t.Helper()
	c.t.Fatalf("%s is no node of the cluster", server.Addr())
	return ""
}

// live are the servers that can answer.
func (c *Cluster) live() []*Server {
	return slices.DeleteFunc(slices.Clone(c.servers), func(s *Server) bool { return s.process.gone() || s.process.stopped.Load() })
}

// disturbed comes before a server is stopped or ended: from now on the cluster must find out quickly.
func (c *Cluster) disturbed() {
	c.t.Helper()
	c.rouse.Do(func() { c.setNodeTimeout(c.config.NodeTimeout) })
}

func (c *Cluster) setNodeTimeout(timeout time.Duration) {
	c.t.Helper()
	for _, server := range c.live() {
		server.command("config", "set", "cluster-node-timeout", timeout.Milliseconds())
	}
}

// Options are new ones on each call: go-redis' defaults, all addresses, the default user's password and the TLS configuration.
func (c *Cluster) Options() *redis.ClusterOptions {
	first := c.servers[0]
	opts := &redis.ClusterOptions{Password: first.settings.password, TLSConfig: first.clientTLS()}
	for _, server := range c.servers {
		opts.Addrs = append(opts.Addrs, server.Addr())
	}
	return opts
}

// Client logs in as the default user, and is closed at the end of the test.
func (c *Cluster) Client(t testing.TB) *redis.ClusterClient {
	t.Helper()
	client := redis.NewClusterClient(c.Options())
	t.Cleanup(func() { _ = client.Close() }) // The test may have closed it.
	return client
}

// Servers are all, those that are down too.
func (c *Cluster) Servers() []*Server { return slices.Clone(c.servers) }

// Masters are the servers that have slots at present, as all live nodes see it: a dead one until another is promoted.
func (c *Cluster) Masters() []*Server {
	c.t.Helper()
	return c.which("the nodes do not agree on the masters", func(v *view, id string) bool { return slices.Contains(v.masters(), id) })
}

// Replicas are those of a master, as all live nodes see it, those that are down too.
func (c *Cluster) Replicas(master *Server) []*Server {
	c.t.Helper()
	of := c.id(master)
	return c.which("the nodes do not agree on the replicas", func(v *view, id string) bool { return v.members[id].master == of })
}

// which are the servers that are so in the view of all, in the order of Servers.
func (c *Cluster) which(what string, is func(v *view, id string) bool) (servers []*Server) {
	c.t.Helper()
	c.await(what, func(views []*view) error {
		servers = slices.DeleteFunc(c.Servers(), func(s *Server) bool { return !is(views[0], c.id(s)) })
		return nil
	})
	return servers
}

// Master serves the key's slot at present, as all live nodes see it. It may be dead.
func (c *Cluster) Master(key string) *Server {
	c.t.Helper()
	return c.awaitMaster("the nodes do not agree on a master", c.slot(key), func(*Server, []*view) error { return nil })
}

// WaitPromoted waits until another server than old serves the key's slot and takes writes, as all live nodes see it.
func (c *Cluster) WaitPromoted(old *Server, key string) *Server {
	c.t.Helper()
	return c.awaitMaster("no replica is promoted", c.slot(key), func(master *Server, views []*view) error {
		if master == old {
			return errors.New("the old master has the slot")
		}
		if !slices.Contains(c.live(), master) {
			return fmt.Errorf("%s is down", master.Addr())
		}
		return serve(views)
	})
}

// awaitMaster waits until all live nodes but one that takes the slot over name one master of it, and it is as it should be.
func (c *Cluster) awaitMaster(what string, slot int, is func(master *Server, views []*view) error) (master *Server) {
	c.t.Helper()
	c.await(what, func(views []*view) error {
		owner := ""
		for _, v := range views {
			if slices.Contains(v.importing, slot) {
				continue
			}
			named := v.owner(slot)
			if named == "" || owner != "" && named != owner {
				return fmt.Errorf("%s holds %q for the master, another %q", v.by.Addr(), named, owner)
			}
			owner = named
		}
		if master = c.ids[owner]; master == nil {
			return fmt.Errorf("nobody knows who has slot %d", slot)
		}
		return is(master, views)
	})
	return master
}

func (c *Cluster) slot(key string) int {
	c.t.Helper()
	live := c.live()
	if len(live) == 0 {
		c.t.Fatal("no node of the cluster lives")
	}
	slot, err := live[0].admin.ClusterKeySlot(live[0].context(), key).Result()
	live[0].must(err)
	return int(slot)
}

// WaitInSync waits until every live replica has what its master had at the first look. A revived server counts from when the cluster has made it a replica.
func (c *Cluster) WaitInSync() {
	c.t.Helper()
	goals := map[string]int64{} // by replication id
	c.await("a replica is not in sync", func(views []*view) error {
		for _, v := range views {
			master := c.ids[v.members[c.id(v.by)].master]
			if master == nil {
				continue
			}
			if err := inSync(v.by, master, goals); err != nil {
				return err
			}
		}
		return nil
	})
}

func inSync(replica, master *Server, goals map[string]int64) error {
	theirs, err := master.info("replication")
	if err != nil {
		return err
	}
	history := theirs["master_replid"]
	if _, ok := goals[history]; !ok {
		if goals[history], err = strconv.ParseInt(theirs["master_repl_offset"], 10, 64); err != nil {
			return err
		}
	}
	ours, err := replica.info("replication")
	if err != nil {
		return err
	}
	// It is missing while the server is a master.
	offset, err := strconv.ParseInt(ours["slave_repl_offset"], 10, 64)
	if err != nil || ours["master_replid"] != history || ours["master_link_status"] != "up" || offset < goals[history] {
		return fmt.Errorf("%s is a %s at %d of %d, and its link is %q", replica.Addr(), ours["role"], offset, goals[history], ours["master_link_status"])
	}
	return nil
}

// await waits until all live nodes see the same cluster, and it is as it should be. It asks them each time: they may have promoted another meanwhile.
func (c *Cluster) await(what string, is func(views []*view) error) {
	c.t.Helper()
	c.servers[0].awaitFor(c.limit, what, func() error {
		views, err := c.agreed()
		if err == nil {
			err = is(views)
		}
		return err
	})
}

// agreed are the views of all live nodes.
func (c *Cluster) agreed() ([]*view, error) {
	var views []*view
	for _, server := range c.live() {
		text, err := server.admin.ClusterNodes(server.context()).Result()
		if err != nil {
			return nil, err
		}
		v := &view{by: server}
		if err := v.read(text); err != nil {
			return nil, err
		}
		if len(views) > 0 && !v.agrees(views[0]) {
			return nil, fmt.Errorf("%s sees another cluster: %v and %v", server.Addr(), v.members, views[0].members)
		}
		views = append(views, v)
	}
	if len(views) == 0 {
		return nil, errors.New("no node lives")
	}
	return views, nil
}

// command is for what must succeed.
func (s *Server) command(args ...any) {
	s.t.Helper()
	if err := s.admin.Do(s.context(), args...).Err(); err != nil {
		s.t.Fatalf("Redis at %s: %v: %v", s.Addr(), args, err)
	}
}
