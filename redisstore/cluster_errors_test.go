package redisstore_test

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/picket-go/picket"
	"github.com/picket-go/picket/internal/redistest"
	"github.com/picket-go/picket/locktest"
	"github.com/picket-go/picket/redisstore"
)

// proxied is a client whose connections to the nodes of a Cluster go through proxies, by the node's port: the nodes name each other by addresses of their own, so
// a proxy can only come in where it is dialled.
func proxied(t *testing.T, cluster *redistest.Cluster) (*redis.ClusterClient, map[string]*redistest.Proxy) {
	t.Helper()
	proxies := map[string]*redistest.Proxy{}
	for i, s := range cluster.Servers() {
		proxies[portOf(s)] = redistest.StartProxy(t, s.Addr(), uint64(i))
	}
	o := cluster.Options()
	o.MaxRetries, o.ReadTimeout = 3, time.Second // by default a node's client makes no retries, and one that hangs is asked for its map for 5 s
	o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		_, port, _ := net.SplitHostPort(addr) // the only node of a Cluster does not know its host
		if p := proxies[port]; p != nil {
			addr = p.Addr()
		}
		return new(net.Dialer).DialContext(ctx, network, addr)
	}
	c := redis.NewClusterClient(o)
	t.Cleanup(func() { _ = c.Close() })
	return c, proxies
}

func portOf(s *redistest.Server) string {
	_, port, _ := net.SplitHostPort(s.Addr())
	return port
}

// wantClusterError wants all operations to fail alike: without doubt, in one line that says what to do, and before ctx ends.
func wantClusterError(t *testing.T, s *redisstore.Store, want error, says string) {
	t.Helper()
	for op, call := range operations(s) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		err := call(ctx, claim("k"))
		late := ctx.Err()
		cancel()
		if late != nil {
			t.Errorf("%s: left by its ctx: %v", op, err)
			continue
		}
		if !errors.Is(err, want) || !unsent(err) {
			t.Errorf("%s = %v, want %v without doubt", op, err, want)
			continue
		}
		text := err.Error()
		if !strings.HasPrefix(text, "redisstore: "+op) || !strings.Contains(text, says) || strings.Contains(text, canary) || strings.Contains(text, "\n") {
			t.Errorf("%q, want one line of %s with %q and without the password", text, op, says)
		}
	}
}

// TestAClusterThatIsNotFoundSaysWhatToCheck (GL-53): every operation, of a client that cannot get a map of the Cluster.
func TestAClusterThatIsNotFoundSaysWhatToCheck(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.ClusterConfig{Masters: 1, Replicas: -1, Servers: []redistest.Option{
		redistest.WithPassword(canary), redistest.WithACL("weak", canary, "~* &* +@all -cluster"),
	}})
	single := redistest.Start(t, redistest.WithPassword(canary))
	secure := redistest.Start(t, redistest.WithTLS(redistest.TLS{Mutual: true}))
	for name, tt := range map[string]struct {
		change func(*redis.ClusterOptions)
		want   error
		says   string
	}{
		"nobody answers": {func(o *redis.ClusterOptions) { o.Addrs = []string{"127.0.0.1:1", "127.0.0.1:2"} }, picket.ErrUnavailable, "no connection"},
		"no Cluster":     {func(o *redis.ClusterOptions) { o.Addrs = []string{single.Addr()} }, picket.ErrRefused, "belongs to no Cluster: use redis.NewClient"},
		"no password":    {func(o *redis.ClusterOptions) { o.Password = "" }, picket.ErrRefused, "wants a password"},
		"wrong password": {func(o *redis.ClusterOptions) { o.Password += "x" }, picket.ErrRefused, "password is wrong"},
		"no permission":  {func(o *redis.ClusterOptions) { o.Username = "weak" }, picket.ErrRefused, "lacks a permission"},
		"unknown authority": {func(o *redis.ClusterOptions) {
			o.Addrs, o.TLSConfig = []string{secure.Addr()}, secure.Options().TLSConfig.Clone()
			o.TLSConfig.RootCAs = nil
		}, picket.ErrUnavailable, "check RootCAs"},
	} {
		t.Run(name, func(t *testing.T) {
			o := cluster.Options()
			o.DialerRetries = 1
			tt.change(o)
			c := redis.NewClusterClient(o)
			t.Cleanup(func() { _ = c.Close() })
			wantClusterError(t, store(t, c), tt.want, tt.says)
		})
	}
	for _, known := range []bool{false, true} {
		t.Run("closed client, map known "+strconv.FormatBool(known), func(t *testing.T) {
			c := cluster.Client(t)
			s := store(t, c)
			if known {
				if _, err := s.Acquire(t.Context(), claim(t.Name())); err != nil {
					t.Fatal(err)
				}
			}
			_ = c.Close()
			wantClusterError(t, s, picket.ErrRefused, "the client was closed")
		})
	}
	t.Run("one seed of three answers", func(t *testing.T) {
		o := cluster.Options()
		o.DialerRetries, o.Addrs = 1, append(o.Addrs, "127.0.0.1:1", "127.0.0.1:2")
		c := redis.NewClusterClient(o)
		t.Cleanup(func() { _ = c.Close() })
		if _, err := store(t, c).Acquire(t.Context(), claim(t.Name())); err != nil {
			t.Error(err)
		}
	})
}

// nodeErrors are what nodes of a Cluster say, and what it means. %s is the slot.
var nodeErrors = []struct {
	reply string
	want  error
	says  string
}{
	{"CLUSTERDOWN The cluster is down", picket.ErrUnavailable, "cluster is down"},
	{"CLUSTERDOWN Hash slot not served", picket.ErrUnavailable, "cluster is down"},
	{"MOVED %s 127.0.0.1:1", picket.ErrUnavailable, "no connection"}, // nobody is there
	{"READONLY You can't write against a read only replica.", picket.ErrUnavailable, "replica"},
	{"LOADING Redis is loading the dataset in memory", picket.ErrUnavailable, "loading"},
	{"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.", picket.ErrUnavailable, "failover"},
	{"OOM command not allowed when used memory > 'maxmemory'.", picket.ErrRefused, "maxmemory"},
	{"NOPERM this user has no permissions to run the 'evalsha' command", picket.ErrRefused, "ACL line"},
}

// TestEveryCallTellsWhatANodeSays (GL-53): nothing was done, and no command is sent twice but by a redirection.
func TestEveryCallTellsWhatANodeSays(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.ClusterConfig{Masters: 1, Replicas: -1, Servers: []redistest.Option{redistest.WithPassword(canary)}})
	c, proxies := proxied(t, cluster)
	server := cluster.Servers()[0]
	proxy := proxies[portOf(server)]
	s := store(t, c)
	warm := claim("warm")
	if _, err := s.Acquire(t.Context(), warm); err != nil {
		t.Fatal(err)
	}
	slot := redisstore.SlotText("lock:{k}")
	for _, e := range nodeErrors {
		for op, call := range operations(s) {
			moved := strings.HasPrefix(e.reply, "MOVED")
			if op == "watch" || op == "list" && moved { // a watch waits for the Cluster, and a listing has no slot
				continue
			}
			proxy.Heal()
			proxy.Sometimes(1, redistest.Answer(strings.ReplaceAll(e.reply, "%s", slot)), "evalsha", "eval", "scan")
			before := proxy.Counts().Answered
			err := call(t.Context(), claim("k"))
			if !errors.Is(err, e.want) || !unsent(err) {
				t.Errorf("%s at %q = %v, want %v without doubt", op, e.reply, err, e.want)
				continue
			}
			if text := err.Error(); !strings.HasPrefix(text, "redisstore: "+op) || !strings.Contains(text, e.says) || strings.Contains(text, canary) {
				t.Errorf("%s at %q: %q, want %q", op, e.reply, text, e.says)
			}
			if n := proxy.Counts().Answered - before; n != 1 && !moved {
				t.Errorf("%s at %q was sent %d times", op, e.reply, n)
			}
		}
	}
	proxy.Heal()
	if n := server.Client(t).DBSize(t.Context()).Val(); n != 2 {
		t.Errorf("%d keys, want those of one lease", n)
	}
	if err := s.Release(t.Context(), warm); err != nil {
		t.Errorf("Release = %v", err)
	}
}

// TestASlotWithoutAnOwnerIsWaitedFor: every operation says that the Cluster is down, and a Locker gets the lock when somebody serves the slot again.
func TestASlotWithoutAnOwnerIsWaitedFor(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.ClusterConfig{Replicas: -1, NodeTimeout: time.Minute})
	s := store(t, cluster.Client(t))
	for _, key := range []string{"k", "a", "b", "c"} { // the Store knows all nodes
		if _, err := s.Acquire(t.Context(), claim(key+" before")); err != nil {
			t.Fatal(err)
		}
	}
	slot := redisstore.SlotText("lock:{k}")
	owner := cluster.Master("lock:{k}")
	for _, m := range cluster.Servers() {
		if err := m.Client(t).Do(t.Context(), "cluster", "delslots", slot).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for op, call := range operations(s) {
		if op == "watch" || op == "list" { // it waits; it has no slot
			continue
		}
		if err := call(t.Context(), claim("k")); !errors.Is(err, picket.ErrUnavailable) || !unsent(err) || !strings.Contains(err.Error(), "CLUSTER INFO") {
			t.Errorf("%s = %v, want ErrUnavailable without doubt", op, err)
		}
	}
	in := make(chan error, 1)
	l := locker(t, s)
	go func() {
		lease, err := l.Acquire(t.Context(), "k")
		if err == nil {
			err = lease.Release(t.Context())
		}
		in <- err
	}()
	for _, m := range cluster.Servers() {
		if err := m.Client(t).Do(t.Context(), "cluster", "setslot", slot, "node", owner.Client(t).Do(t.Context(), "cluster", "myid").Val()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if m := cluster.Master("lock:{k}"); m != owner {
		t.Fatalf("%s serves the slot", m.Addr())
	}
	select {
	case err := <-in:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(slow(10 * time.Second)):
		t.Error("nobody is let in")
	}
}

// effects are the operations that change a lock, each of which must reach a server at most once.
func effects(s *redisstore.Store) map[string]func(context.Context, picket.Claim) error {
	all := operations(s)
	for _, op := range []string{"renew", "inspect", "list", "watch"} {
		delete(all, op)
	}
	return all
}

// TestNothingIsSentTwice (GL-2): whatever becomes of a call on its way, at its node or at the one that its slot is being moved to, the servers see it once, and its claim is in
// doubt.
func TestNothingIsSentTwice(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.ClusterConfig{Replicas: -1, NodeTimeout: time.Minute})
	c, proxies := proxied(t, cluster)
	s := store(t, c)
	calls := func() (n int64) {
		for _, server := range cluster.Servers() {
			stats := server.CommandStats()
			n += stats["evalsha"] + stats["eval"]
		}
		return n
	}
	learn := func(name string) { // all scripts are known on both sides
		t.Helper()
		for _, call := range effects(s) {
			_ = call(t.Context(), claim(name))
		}
	}
	name, record := neighbours(2), "lock:{n0}"
	from, to := cluster.Master(record), elsewhere(cluster, record)
	check := func(where string, proxy *redistest.Proxy, key string) {
		for fault, f := range map[string]redistest.Fault{"lost reply": redistest.Drop(redistest.Replies), "cut reply": redistest.Cut(redistest.Replies)} {
			for op, call := range effects(s) {
				proxy.Heal()
				before := calls()
				proxy.Next(1, f, "evalsha", "eval")
				ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
				err := call(ctx, claim(key))
				cancel()
				if !errors.Is(err, picket.ErrUnavailable) || unsent(err) {
					t.Errorf("%s, %s of %s = %v, want ErrUnavailable in doubt", where, fault, op, err)
				}
				if n := calls() - before; n > 1 {
					t.Errorf("%s, %s: %d calls of %s were carried out", where, fault, n, op)
				}
			}
		}
		proxy.Heal()
	}
	learn(name[0])
	check("at its node", proxies[portOf(from)], name[0])
	move := cluster.Move(record, to)
	for move.Step(100) > 0 { // the source has none of them any more
	}
	learn(name[1])
	check("at the new node", proxies[portOf(to)], name[1])
	move.Finish()
}

// TestCallersLeaveANodeThatHangs (GL-20): in time, with the claim in doubt, and nothing stays behind them for longer than a second.
func TestCallersLeaveANodeThatHangs(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.ClusterConfig{Replicas: -1, NodeTimeout: time.Minute})
	hangs := cluster.Master("lock:{k}")
	for how, stop := range map[string]func(map[string]*redistest.Proxy) func(){
		"stands still": func(map[string]*redistest.Proxy) func() { hangs.Stop(); return hangs.Cont },
		"black hole": func(proxies map[string]*redistest.Proxy) func() {
			proxies[portOf(hangs)].BlackHole()
			return proxies[portOf(hangs)].Heal
		},
	} {
		t.Run(how, func(t *testing.T) {
			c, proxies := proxied(t, cluster)
			s, err := redisstore.New(c)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Acquire(t.Context(), claim(how)); err != nil {
				t.Fatal(err)
			}
			goOn := stop(proxies)
			defer goOn()
			for range 2 { // the second time the Store knows it
				var calls sync.WaitGroup
				for op, call := range operations(s) {
					calls.Go(func() { leaves(t, op+" by deadline", call, context.WithTimeout) })
					calls.Go(func() { leaves(t, op+" by cancel", call, cancelAfter) })
				}
				calls.Wait()
			}
			began := time.Now()
			if err := s.Close(t.Context()); err != nil {
				t.Error(err)
			}
			if took := time.Since(began); took > slow(3*time.Second) { // a second for calls, or a read or two of go-redis' own
				t.Errorf("Close took %v", took)
			}
			for op, call := range operations(s) {
				if err := call(t.Context(), claim("k")); !errors.Is(err, picket.ErrClosed) || !unsent(err) {
					t.Errorf("%s after Close = %v", op, err)
				}
			}
		})
	}
}

// cancelAfter is WithTimeout with another way to end.
func cancelAfter(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	time.AfterFunc(d, cancel)
	return ctx, cancel
}

// leaves wants a call to end soon after its ctx.
func leaves(t *testing.T, op string, call func(context.Context, picket.Claim) error, end func(context.Context, time.Duration) (context.Context, context.CancelFunc)) {
	const limit = 200 * time.Millisecond
	ctx, cancel := end(t.Context(), limit)
	defer cancel()
	began := time.Now()
	err := call(ctx, claim("k"))
	if took := time.Since(began); took > limit+slow(150*time.Millisecond) {
		t.Errorf("%s left after %v", op, took)
	}
	if !errors.Is(err, picket.ErrUnavailable) {
		t.Errorf("%s = %v, want ErrUnavailable", op, err)
	}
}

// TestThePermissionsInTheDocumentationAreEnoughOnACluster runs the whole suite under them, and follows a slot that moves.
func TestThePermissionsInTheDocumentationAreEnoughOnACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.ClusterConfig{Replicas: -1, Servers: []redistest.Option{redistest.WithACL("picket", "secret", documented(t))}})
	connect := func(t *testing.T) picket.Store {
		o := cluster.Options()
		o.Username, o.Password = "picket", "secret"
		c := redis.NewClusterClient(o)
		t.Cleanup(func() { _ = c.Close() })
		return store(t, c)
	}
	locktest.Run(t, locktest.Config{New: connect})
	lease := acquired(t, locker(t, connect(t)), "moves")
	move := cluster.Move("lock:{moves}", elsewhere(cluster, "lock:{moves}"))
	move.MoveKeys("lock:{moves}")
	if err := lease.Release(t.Context()); err != nil {
		t.Errorf("Release = %v", err)
	}
	move.Finish()
}
