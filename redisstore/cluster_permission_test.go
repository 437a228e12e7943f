package redisstore_test

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/picket-go/picket"
	"github.com/picket-go/picket/internal/redistest"
	"github.com/picket-go/picket/redisstore"
)

// TestWaitersListenAsTheyAreAllowedTo: on shard channels, also if they may not ask a node for its id; on classic ones; or not at all, and then they poll.
func TestWaitersListenAsTheyAreAllowedTo(t *testing.T) {
	t.Parallel()
	const rules = "~lock:* &lock:* -@all +@connection +cluster|slots " + scriptCommands
	users := map[string]string{
		"all":      " +cluster|myid +spublish +ssubscribe +sunsubscribe +subscribe +unsubscribe",
		"nameless": " +spublish +ssubscribe +sunsubscribe",
		"classic":  " +cluster|myid +spublish +subscribe +unsubscribe",
		"mute":     " +cluster|myid +spublish",
	}
	var servers []redistest.Option
	for user, more := range users {
		servers = append(servers, redistest.WithACL(user, "pw", rules+more))
	}
	cluster := redistest.StartCluster(t, redistest.ClusterConfig{Replicas: -1, Servers: servers})
	groups := onEach(t, cluster, 2)
	for user := range users {
		t.Run(user, func(t *testing.T) {
			connect := func() *redisstore.Store {
				o := cluster.Options()
				o.Username, o.Password = user, "pw"
				c := redis.NewClusterClient(o)
				t.Cleanup(func() { _ = c.Close() })
				return store(t, c)
			}
			if user == "mute" {
				polled(t, connect(), connect(), groups)
			} else {
				allowed(t, cluster, connect, groups, user == "classic")
			}
		})
	}
}

// polled has waiters wait that are not allowed to listen.
func polled(t *testing.T, holder, s *redisstore.Store, groups map[*redistest.Server][]string) {
	for _, names := range groups {
		if _, _, err := s.Watch(t.Context(), claim(names[0])); !errors.Is(err, picket.ErrRefused) {
			t.Errorf("Watch(%q) = %v, want ErrRefused", names[0], err)
		}
		lease := acquired(t, locker(t, holder), names[0])
		var in sync.WaitGroup
		in.Go(func() { _ = acquired(t, locker(t, s), names[0]).Release(t.Context()) })
		waiting(t, holder, names[0], 1)
		released := time.Now()
		_ = lease.Release(t.Context())
		in.Wait()
		if took := time.Since(released); took > slow(confirmWindow) {
			t.Errorf("who polls for %q is in %v after the release", names[0], took)
		}
	}
}

// allowed has waiters listen, two for each name, and one slot move.
func allowed(t *testing.T, cluster *redistest.Cluster, connect func() *redisstore.Store, groups map[*redistest.Server][]string, classic bool) {
	names := slices.Concat(slices.Collect(maps.Values(groups))...)
	holder, s, other := connect(), connect(), connect()
	held := holdAll(t, holder, names)
	first, second := listen(t, s, names), listen(t, other, names)
	for _, m := range cluster.Masters() {
		if !eventually(slow(5*time.Second), func() bool { return len(subscribed(t, m)) == 2 }) { // those of another user may only just go
			t.Errorf("%s has %d subscription connections of two Stores", m.Addr(), len(subscribed(t, m)))
		}
		shards, err := m.Client(t).PubSubShardChannels(t.Context(), "*").Result()
		if err != nil || (len(shards) == 0) != classic {
			t.Errorf("%s has the shard channels %q, %v", m.Addr(), shards, err)
		}
	}
	cluster.Move(recordOf(names[0]), elsewhere(cluster, recordOf(names[0]))).Finish()
	var took []time.Duration
	for i, c := range held {
		released := time.Now()
		if err := holder.Release(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		took = append(took, first[i].heard(t, released))
		if _, err := other.Acquire(t.Context(), second[i].claim); !errors.Is(err, picket.ErrBusy) {
			t.Errorf("%q is had by who is not its turn: %v", names[i], err)
		}
		if i > 0 { // where the slot has moved all who listen on shard channels were told to ask
			second[i].silent(t)
		}
		given := time.Now()
		first[i].serve(t)
		took = append(took, second[i].heard(t, given))
		second[i].serve(t)
	}
	brisk(t, took)
}
