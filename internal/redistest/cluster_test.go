package redistest_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/picket-go/picket/internal/redistest"
)

func TestAClusterServesAllSlots(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		config            redistest.ClusterConfig
		masters, replicas int
	}{
		"by default":       {masters: 3, replicas: 1},
		"without replicas": {config: redistest.ClusterConfig{Masters: 2, Replicas: -1}, masters: 2},
		"with a password": {masters: 3, replicas: 1, config: redistest.ClusterConfig{
			Servers: []redistest.Option{redistest.WithPassword(`p"w`)},
		}},
		"in TLS": {masters: 3, replicas: 1, config: redistest.ClusterConfig{
			Servers: []redistest.Option{redistest.WithPassword("pw"), redistest.WithTLS(redistest.TLS{Mutual: true})},
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			c := redistest.StartCluster(t, test.config)
			t.Log("it took", time.Since(began))
			if len(c.Servers()) != test.masters*(1+test.replicas) || len(c.Masters()) != test.masters {
				t.Fatalf("%d servers and %d masters", len(c.Servers()), len(c.Masters()))
			}
			client := c.Client(t)
			used := map[*redistest.Server]bool{}
			for i := range 40 {
				key := fmt.Sprint("k", i)
				if err := client.Set(t.Context(), key, i, 0).Err(); err != nil {
					t.Fatal(err)
				}
				master := c.Master(key)
				used[master] = true
				wantValue(t, master.Client(t), key, fmt.Sprint(i))
			}
			for _, master := range c.Masters() {
				if !used[master] {
					t.Errorf("no key is at %s", master.Addr())
				}
				replicas := c.Replicas(master)
				if len(replicas) != test.replicas {
					t.Errorf("%d replicas", len(replicas))
				}
				c.WaitInSync()
				for _, replica := range replicas {
					if n := dbSize(t, replica); n == 0 || n != dbSize(t, master) {
						t.Errorf("%d keys at the master, %d at its replica", dbSize(t, master), n)
					}
				}
			}
		})
	}
}

func dbSize(t *testing.T, server *redistest.Server) int64 {
	t.Helper()
	n, err := server.Client(t).DBSize(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestAKilledMasterIsReplacedAndBecomesAReplica(t *testing.T) {
	t.Parallel()
	tests := map[string]redistest.ClusterConfig{
		"without a password": {},
		"with a password":    {Servers: []redistest.Option{redistest.WithPassword("pw")}},
		"in TLS":             {Servers: []redistest.Option{redistest.WithTLS(redistest.TLS{})}},
	}
	for name, config := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := redistest.StartCluster(t, config)
			old := c.Master("k")
			set(t, old.Client(t), "k", "early")
			replica := c.Replicas(old)[0]
			c.WaitInSync()
			old.Kill()
			promoted := c.WaitPromoted(old, "k")
			if promoted != replica || c.Master("k") != promoted || slices.Contains(c.Masters(), old) {
				t.Fatalf("%s is promoted, %s is the master", promoted.Addr(), c.Master("k").Addr())
			}
			client := direct(t, promoted)
			wantValue(t, client, "k", "early")
			set(t, client, "k", "late")

			old.Restart(true)
			c.WaitInSync()
			wantInSync(t, c, promoted, old)
			conn := old.Client(t).Conn()
			defer conn.Close()
			if err := conn.ReadOnly(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
			if got, err := conn.Get(t.Context(), "k").Result(); got != "late" {
				t.Fatalf("the old master has %q, %v", got, err)
			}
		})
	}
}

func TestAStoppedMasterIsReplacedAndFollowsAfterCont(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.ClusterConfig{NodeTimeout: 500 * time.Millisecond})
	old := c.Master("k")
	old.Stop()
	promoted := c.WaitPromoted(old, "k")
	set(t, direct(t, promoted), "k", "v")
	old.Cont()
	c.WaitInSync()
	wantInSync(t, c, promoted, old)
}

func wantInSync(t *testing.T, c *redistest.Cluster, master, replica *redistest.Server) {
	t.Helper()
	info := replica.Info("replication")
	if info["role"] != "slave" || info["master_link_status"] != "up" {
		t.Fatalf("the replica is %v", info)
	}
	if got := c.Replicas(master); len(got) != 1 || got[0] != replica {
		t.Fatalf("the replicas are %v", got)
	}
}

func TestARestartedMasterFindsItsCluster(t *testing.T) {
	t.Parallel()
	// The long time keeps it the master while it is down.
	c := redistest.StartCluster(t, redistest.ClusterConfig{NodeTimeout: time.Minute})
	master := c.Master("k")
	for _, keepData := range []bool{true, false} {
		set(t, direct(t, master), "k", "v")
		addr := master.Addr()
		master.Restart(keepData)
		c.WaitInSync()
		if c.Master("k") != master || master.Addr() != addr {
			t.Fatal("another server is the master")
		}
		await(t, "it serves nothing", func() error { return direct(t, master).Exists(t.Context(), "k").Err() })
		for _, server := range append(c.Replicas(master), master) {
			if kept := dbSize(t, server) == 1; kept != keepData {
				t.Errorf("after Restart(%v) %s has the key: %v", keepData, server.Addr(), kept)
			}
		}
	}
}

func await(t *testing.T, what string, is func() error) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if err = is(); err == nil {
			return
		}
	}
	t.Fatal(what, ": ", err)
}

func TestWaitPromotedWaitsThoughTheOldMasterLives(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.ClusterConfig{})
	old := c.Master("k")
	replica := c.Replicas(old)[0]
	client := direct(t, replica)
	later(t, func() error { return client.ClusterFailover(t.Context()).Err() })
	if promoted := c.WaitPromoted(old, "k"); promoted != replica {
		t.Fatalf("%s is promoted", promoted.Addr())
	}
	set(t, client, "k", "v")
}

// later does it while the test waits for what comes of it.
func later(t *testing.T, do func() error) {
	t.Helper()
	var wg sync.WaitGroup
	t.Cleanup(wg.Wait)
	wg.Go(func() {
		time.Sleep(500 * time.Millisecond)
		if err := do(); err != nil {
			t.Error(err)
		}
	})
}

func TestWaitInSyncWaitsForAReplicaThatIsBehind(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.ClusterConfig{})
	master := c.Master("k")
	replica := c.Replicas(master)[0]
	client, theirs := direct(t, master), direct(t, replica)
	cut := func(password string) error { return theirs.ConfigSet(t.Context(), "masterauth", password).Err() }
	if err := cut("wrong"); err != nil {
		t.Fatal(err)
	}
	if err := client.Do(t.Context(), "client", "kill", "type", "replica").Err(); err != nil {
		t.Fatal(err)
	}
	set(t, client, "k", "v")
	later(t, func() error { return cut("") })
	c.WaitInSync()
	if n := dbSize(t, replica); n != 1 {
		t.Fatalf("the replica has %d keys after its link was cut", n)
	}

	pipe := client.Pipeline()
	for i := range 32 {
		pipe.Set(t.Context(), fmt.Sprintf("{k}%d", i), make([]byte, 1<<20), 0)
	}
	replica.Stop()
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	replica.Cont()
	c.WaitInSync()
	if n := dbSize(t, replica); n != 33 {
		t.Fatalf("the replica has %d keys after many writes", n)
	}
}

// direct is a client that follows nothing and tries nothing again.
func direct(t *testing.T, server *redistest.Server) *redis.Client {
	t.Helper()
	opts := server.Options()
	opts.MaxRetries = -1
	client := redis.NewClient(opts)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func TestAnUntouchedClusterPromotesNobodyThoughAServerIsSilent(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.ClusterConfig{NodeTimeout: 300 * time.Millisecond, Servers: []redistest.Option{redistest.WithDebugCommands()}})
	master := c.Master("k")
	client := direct(t, master)
	if err := client.Do(t.Context(), "debug", "sleep", "2.5").Err(); err != nil {
		t.Fatal(err)
	}
	set(t, client, "k", "v")
	if c.Master("k") != master {
		t.Fatal("another server is the master")
	}
	master.Kill()
	c.WaitPromoted(master, "k")
}
