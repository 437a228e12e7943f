package redistest_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/picket-go/picket/internal/redistest"
)

// anotherMaster is one that has not the key's slot.
func anotherMaster(c *redistest.Cluster, key string) *redistest.Server {
	source := c.Master(key)
	masters := c.Masters()
	return masters[slices.IndexFunc(masters, func(s *redistest.Server) bool { return s != source })]
}

func wantRedirect(t *testing.T, err error, prefix string) {
	t.Helper()
	if err == nil || !strings.HasPrefix(err.Error(), prefix) {
		t.Errorf("got %v, want %s", err, prefix)
	}
}

// asking is an MGET after ASKING.
func asking(t *testing.T, client *redis.Client, keys ...string) error {
	t.Helper()
	pipe := client.Pipeline()
	pipe.Do(t.Context(), "asking")
	reply := pipe.MGet(t.Context(), keys...)
	_, _ = pipe.Exec(t.Context()) // reply has it.
	return reply.Err()
}

func TestASlotMovesKeyByKey(t *testing.T) {
	t.Parallel()
	tests := map[string][]redistest.Option{
		"without a password": nil,
		"with a password":    {redistest.WithPassword(`p"w`)},
		"in TLS":             {redistest.WithPassword("pw"), redistest.WithTLS(redistest.TLS{Mutual: true})},
	}
	for name, options := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := redistest.StartCluster(t, redistest.ClusterConfig{Replicas: -1, Servers: options})
			client := c.Client(t)
			keys := make([]string, 10)
			for i := range keys {
				keys[i] = fmt.Sprintf("{k}%d", i)
				if err := client.Set(t.Context(), keys[i], i, 0).Err(); err != nil {
					t.Fatal(err)
				}
			}
			if err := client.Set(t.Context(), "elsewhere", "stays", 0).Err(); err != nil {
				t.Fatal(err)
			}
			m := c.Move("{k}", anotherMaster(c, "{k}"))
			if m.Source() != c.Master("{k}") || m.Target() == m.Source() || !slices.Equal(sorted(m.Keys()), keys) {
				t.Fatalf("%s has %q", m.Source().Addr(), m.Keys())
			}
			source, target := direct(t, m.Source()), direct(t, m.Target())
			wantRedirect(t, target.Get(t.Context(), keys[0]).Err(), "MOVED")

			m.MoveKeys(keys[:2]...)
			if n := m.Step(3); n != 3 || len(m.Keys()) != 5 || slices.Contains(m.Keys(), keys[0]) {
				t.Fatalf("%d moved, and left are %q", n, m.Keys())
			}
			left := m.Keys()
			wantValue(t, source, left[0], left[0][len("{k}"):])
			wantRedirect(t, source.Get(t.Context(), keys[0]).Err(), "ASK ")
			wantRedirect(t, source.MGet(t.Context(), keys[0], left[0]).Err(), "TRYAGAIN")
			wantRedirect(t, asking(t, target, keys[0], left[0]), "TRYAGAIN")
			wantRedirect(t, target.Get(t.Context(), keys[0]).Err(), "MOVED")
			if err := asking(t, target, keys[:2]...); err != nil {
				t.Error(err)
			}
			wantAll(t, client, keys)

			m.Finish()
			if c.Master("{k}") != m.Target() || len(m.Keys()) != 0 || m.Step(1) != 0 {
				t.Fatalf("%s has the slot, and the source %q", c.Master("{k}").Addr(), m.Keys())
			}
			wantValue(t, target, keys[0], "0")
			for _, master := range c.Masters() {
				if master != m.Target() {
					wantRedirect(t, direct(t, master).Get(t.Context(), keys[0]).Err(), "MOVED")
				}
			}
			wantAll(t, client, keys)
			if got, err := client.Get(t.Context(), "elsewhere").Result(); got != "stays" {
				t.Errorf("another slot's key is %q, %v", got, err)
			}
		})
	}
}

func sorted(keys []string) []string {
	slices.Sort(keys)
	return keys
}

// wantAll reads each key through a client that follows ASK and MOVED.
func wantAll(t *testing.T, client *redis.ClusterClient, keys []string) {
	t.Helper()
	for i, key := range keys {
		if got, err := client.Get(t.Context(), key).Result(); got != fmt.Sprint(i) {
			t.Errorf("%s = %q, %v", key, got, err)
		}
	}
}

func TestAMigrationBeginsAnewAfterItsSourceIsReplaced(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.ClusterConfig{})
	old := c.Master("k")
	set(t, direct(t, old), "k", "v")
	target := anotherMaster(c, "k")
	c.Move("k", target)
	c.WaitInSync()
	old.Kill()
	promoted := c.WaitPromoted(old, "k")
	wantRedirect(t, direct(t, target).Get(t.Context(), "k").Err(), "CLUSTERDOWN")
	m := c.Move("k", target)
	if m.Source() != promoted {
		t.Fatalf("the source is %s", m.Source().Addr())
	}
	m.Finish() // With a master down.
	wantValue(t, direct(t, target), "k", "v")
	old.Restart(true)
	c.WaitInSync()
	if c.Master("k") != target {
		t.Fatalf("%s has the slot", c.Master("k").Addr())
	}
}

// The sequence that makes a subscription to a sharded channel end.
func TestASubscriberAtTheSourceIsUnsubscribedWhenTheSlotIsGiven(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.ClusterConfig{Replicas: -1})
	m := c.Move("ch", anotherMaster(c, "ch"))
	sub := direct(t, m.Source()).SSubscribe(t.Context(), "ch")
	defer sub.Close()
	want := func(kind string) {
		t.Helper()
		got, err := sub.Receive(t.Context())
		if s, ok := got.(*redis.Subscription); !ok || s.Kind != kind {
			t.Fatalf("got %v, %v, want %s", got, err, kind)
		}
	}
	want("ssubscribe")
	m.Finish()
	want("sunsubscribe")
}
