package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/picket-go/picket"
	"github.com/picket-go/picket/internal/redistest"
	"github.com/picket-go/picket/redisstore"
)

// TestAServerThatIsNoNodeIsNotAskedForAnothersLocks: with ClusterSlots go-redis spreads keys over servers that know nothing of each other, and that never say MOVED.
func TestAServerThatIsNoNodeIsNotAskedForAnothersLocks(t *testing.T) {
	t.Parallel()
	first, second := redistest.Start(t), redistest.Start(t)
	c := redis.NewClusterClient(&redis.ClusterOptions{ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
		return []redis.ClusterSlot{
			{Start: 0, End: 8191, Nodes: []redis.ClusterNode{{Addr: first.Addr()}}},
			{Start: 8192, End: 16383, Nodes: []redis.ClusterNode{{Addr: second.Addr()}}},
		}, nil
	}})
	t.Cleanup(func() { _ = c.Close() })
	s := store(t, c)
	if _, err := s.Acquire(t.Context(), claim("k")); err != nil {
		t.Fatal(err)
	}
	has := first
	if second.Client(t).Exists(t.Context(), "lock:{k}").Val() == 1 {
		has = second
	}
	has.Stop()
	defer has.Cont()
	for range 3 {
		if g, err := s.Acquire(t.Context(), claim("k")); !errors.Is(err, picket.ErrUnavailable) {
			t.Fatalf("Acquire of a lock that is held, whose server stands still = %+v, %v", g, err)
		}
	}
}

// TestASilentNodeDoesNotDelayTheOthersRenewals: thousands of leases on three masters, of which one hangs.
func TestASilentNodeDoesNotDelayTheOthersRenewals(t *testing.T) {
	t.Parallel()
	const n, rounds, workers = 3000, 2, 32
	cluster := redistest.StartCluster(t, redistest.ClusterConfig{Replicas: -1, NodeTimeout: time.Minute})
	s := store(t, cluster.Client(t))
	cs := make([]picket.Claim, n)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := w; i < n; i += workers {
				cs[i] = claim(strconv.Itoa(i))
				cs[i].TTL = time.Minute
				if _, err := s.Acquire(t.Context(), cs[i]); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	dead := cluster.Masters()[0]
	healthy := n - int(dead.Client(t).DBSize(t.Context()).Val())/2 // a record and a token each
	dead.Stop()
	defer dead.Cont()
	for round := range rounds { // from the second on the Store knows that it is silent
		var mu sync.Mutex
		renewed, last, began := 0, time.Duration(0), time.Now()
		var wrong error
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		s.Renew(ctx, cs, func(_ int, err error) {
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				renewed, last = renewed+1, time.Since(began)
			} else if !errors.Is(err, picket.ErrUnavailable) && !errors.Is(err, context.DeadlineExceeded) {
				wrong = err
			}
		})
		cancel()
		if wrong != nil {
			t.Errorf("round %d: Renew = %v", round, wrong)
		}
		if took := time.Since(began); took > slow(2500*time.Millisecond) {
			t.Errorf("round %d: Renew took %v, its ctx 2s", round, took)
		}
		if renewed != healthy || last > slow(time.Second) {
			t.Errorf("round %d: %d of the %d leases on healthy nodes were renewed, the last after %v", round, renewed, healthy, last)
		}
	}
}

// busPort is where other nodes find the server.
func busPort(t *testing.T, server *redistest.Server) string {
	t.Helper()
	for line := range strings.Lines(server.Client(t).ClusterNodes(t.Context()).Val()) {
		if strings.Contains(line, "myself") {
			_, ports, _ := strings.Cut(strings.Fields(line)[1], "@")
			bus, _, _ := strings.Cut(ports, ",")
			return bus
		}
	}
	t.Fatalf("%s does not tell the port of its bus", server.Addr())
	return ""
}

// newcomer makes an empty master of a replica of source.
func newcomer(t *testing.T, cluster *redistest.Cluster, source *redistest.Server) *redistest.Server {
	t.Helper()
	server := cluster.Replicas(source)[0]
	admin := server.Client(t)
	var others [][2]string
	for _, other := range cluster.Servers() {
		if other != server {
			others = append(others, [2]string{portOf(other), busPort(t, other)})
		}
	}
	timeout := func(ms int) { // half of it is how often nodes tell each other what they know
		for _, node := range cluster.Servers() {
			node.Client(t).ConfigSet(t.Context(), "cluster-node-timeout", strconv.Itoa(ms))
		}
	}
	timeout(5000)
	defer timeout(60000)
	for _, command := range [][]any{{"cluster", "reset", "soft"}, {"flushall"}} {
		if err := admin.Do(t.Context(), command...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for _, other := range others {
		if err := admin.Do(t.Context(), "cluster", "meet", "127.0.0.1", other[0], other[1]).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for _, node := range cluster.Servers() { // a master says CLUSTERDOWN for two seconds when it has just come
		if !eventually(10*time.Second, func() bool {
			info := node.Client(t).ClusterInfo(t.Context()).Val()
			return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, fmt.Sprint("cluster_known_nodes:", len(cluster.Servers())))
		}) {
			t.Fatalf("%s does not know the newcomer", node.Addr())
		}
	}
	return server
}

// TestANodeThatHasNoSlotYetIsFollowed (issue 5, scale-out): no map of the Cluster names it, and locks move to it.
func TestANodeThatHasNoSlotYetIsFollowed(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.ClusterConfig{NodeTimeout: time.Minute})
	s := store(t, cluster.Client(t))
	names := neighbours(3)
	c, free := claim(names[0]), names[1]
	g, err := s.Acquire(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	record := "lock:{" + c.Key + "}"
	source := cluster.Master(record)
	move := cluster.Move(record, newcomer(t, cluster, source))
	move.MoveKeys(record, record+":fence")
	check := func(when string) {
		t.Helper()
		if again, err := s.Acquire(t.Context(), c); err != nil || again.Token != g.Token {
			t.Errorf("%s: Acquire again = %+v, %v", when, again, err)
		}
		s.Renew(t.Context(), []picket.Claim{c}, func(_ int, err error) {
			if err != nil {
				t.Errorf("%s: Renew = %v", when, err)
			}
		})
		if _, err := s.Acquire(t.Context(), claim(c.Key)); !errors.Is(err, picket.ErrBusy) {
			t.Errorf("%s: Acquire by another = %v", when, err)
		}
		other := claim(free)
		if _, err := s.Acquire(t.Context(), other); err != nil {
			t.Errorf("%s: Acquire of a free lock = %v", when, err)
		}
		if err := s.Release(t.Context(), other); err != nil {
			t.Errorf("%s: Release = %v", when, err)
		}
	}
	check("its record has moved")
	move.Finish()
	check("the slot has moved")
	if err := s.Release(t.Context(), c); err != nil {
		t.Errorf("Release = %v", err)
	}
	if err := s.Close(t.Context()); err != nil { // once more when the test ends
		t.Errorf("Close = %v", err)
	}
}

// TestALockWithAllItsKeysAtTheSourceIsGivenBackWhole: a script that deletes a key and then makes it again dies half-way there. Each lock here has five keys: a claim of it was in
// doubt, and somebody waits.
func TestALockWithAllItsKeysAtTheSourceIsGivenBackWhole(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.ClusterConfig{Replicas: -1})
	s := store(t, cluster.Client(t))
	for name, tt := range map[string]struct {
		hold time.Duration // the holder's
		do   func(ctx context.Context, holder, waiter picket.Claim) error
	}{
		"release": {0, func(ctx context.Context, holder, _ picket.Claim) error { return s.Release(ctx, holder) }},
		"kept":    {time.Minute, func(ctx context.Context, holder, _ picket.Claim) error { return s.Release(ctx, holder) }},
		"leave":   {0, func(ctx context.Context, _, waiter picket.Claim) error { return s.Release(ctx, waiter) }},
		"transfer": {0, func(ctx context.Context, holder, _ picket.Claim) error {
			_, err := s.Transfer(ctx, holder, claim(holder.Key))
			return err
		}},
		"in doubt": {0, func(ctx context.Context, holder, _ picket.Claim) error {
			holder.Doubt = true
			return s.Release(ctx, holder)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			ghost, holder, waiter := claim(name), claim(name), claim(name)
			ghost.Doubt, holder.MinHold, waiter.Queue = true, tt.hold, true
			_ = s.Release(t.Context(), ghost)
			g, err := s.Acquire(t.Context(), holder)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Acquire(t.Context(), waiter); !errors.Is(err, picket.ErrBusy) {
				t.Fatal(err)
			}
			record := "lock:{" + name + "}"
			move := cluster.Move(record, elsewhere(cluster, record))
			if n := len(move.Keys()); n != 5 {
				t.Fatalf("the lock has %d keys, want all five", n)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			err = tt.do(ctx, holder, waiter)
			cancel()
			if err != nil && !unsent(err) { // it may be refused, but not be done by halves
				t.Errorf("while the slot moves: %v", err)
			}
			move.Finish()
			st, inspected := s.Inspect(t.Context(), name)
			switch {
			case inspected != nil:
				t.Error(inspected)
			case (err != nil || name == "leave") && (st.State != picket.StatusHeld || st.Token != g.Token):
				t.Errorf("the lease has ended, though %v: %+v", err, st)
			case err == nil && name != "leave" && st.Token == g.Token && st.Holder.ID == holder.ID:
				t.Errorf("it is still held by who has given it back: %+v", st)
			}
			_, late := s.Acquire(t.Context(), waiter)
			if tt.hold > 0 && !errors.Is(late, picket.ErrBusy) {
				t.Errorf("the next is let in before the min hold is over: %v", late)
			}
		})
	}
}

// TestALeaseGoesThereAndBack: its slot moves to another node and back to the first, key by key, and every step of both.
func TestALeaseGoesThereAndBack(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.ClusterConfig{Replicas: -1})
	s, other := store(t, cluster.Client(t)), store(t, cluster.Client(t)) // the second has an old map each time
	c := claim("k")
	g, err := s.Acquire(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	const record = "lock:{k}"
	home := cluster.Master(record)
	check := func(when string) {
		t.Helper()
		s.Renew(t.Context(), []picket.Claim{c}, func(_ int, err error) {
			if err != nil {
				t.Errorf("%s: Renew = %v", when, err)
			}
		})
		for _, x := range []*redisstore.Store{s, other} {
			if again, err := x.Acquire(t.Context(), c); err != nil || again.Token != g.Token {
				t.Errorf("%s: Acquire again = %+v, %v", when, again, err)
			}
		}
	}
	for _, to := range []*redistest.Server{elsewhere(cluster, record), home} {
		move := cluster.Move(record, to)
		check("it begins")
		move.MoveKeys(record)
		check("the record has moved")
		move.Finish()
		check("it is over")
	}
	if err := other.Release(t.Context(), c); err != nil {
		t.Errorf("Release = %v", err)
	}
}

// TestASourceThatDiesHalfWay: the promoted server knows nothing of the move, so what has been moved is forgotten, as in any failover. The holder learns it, tokens rise, and what
// had not been moved lives on.
func TestASourceThatDiesHalfWay(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.ClusterConfig{})
	l := locker(t, store(t, cluster.Client(t)), picket.WithTTL(10*time.Second))
	names := neighbours(2)
	moved, stays := acquired(t, l, names[0]), acquired(t, l, names[1])
	record := "lock:{" + names[0] + "}"
	move := cluster.Move(record, elsewhere(cluster, record))
	move.MoveKeys(record, record+":fence")
	cluster.WaitInSync()
	move.Source().Kill()
	cluster.WaitPromoted(move.Source(), record)
	lostIn(t, moved, 15*time.Second)
	next := acquired(t, l, names[0])
	if next.Token() <= moved.Token() {
		t.Errorf("token %d follows %d", next.Token(), moved.Token())
	}
	for _, lease := range []*picket.Lease{next, stays} {
		if err := lease.Release(t.Context()); err != nil {
			t.Errorf("Release(%q) = %v", lease.Key(), err)
		}
	}
}

// TestATargetThatDiesHalfWay: the source goes on to send calls to the dead. What is all at the source is still renewed and given back; and when the move is begun anew, the rest is
// there, if the target had a replica.
func TestATargetThatDiesHalfWay(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.ClusterConfig{})
	s := store(t, cluster.Client(t))
	names := neighbours(3)
	var cs []picket.Claim
	for _, name := range names {
		c := claim(name)
		c.TTL = time.Minute
		if _, err := s.Acquire(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		cs = append(cs, c)
	}
	record := "lock:{" + names[0] + "}"
	move := cluster.Move(record, elsewhere(cluster, record))
	move.MoveKeys(record, record+":fence")
	cluster.WaitInSync()
	target := move.Target()
	replica := cluster.Replicas(target)[0]
	target.Kill()
	s.Renew(t.Context(), cs, func(i int, err error) {
		if (err != nil) != (i == 0) || i == 0 && !errors.Is(err, picket.ErrUnavailable) {
			t.Errorf("Renew of %d with a dead target = %v", i, err)
		}
	})
	if err := s.Release(t.Context(), cs[1]); err != nil {
		t.Errorf("Release of what is at the source = %v", err)
	}
	if !eventually(20*time.Second, func() bool { return replica.Info("replication")["role"] == "master" }) {
		t.Fatal("nobody is promoted")
	}
	again := cluster.Move(record, replica)
	s.Renew(t.Context(), []picket.Claim{cs[0], cs[2]}, func(i int, err error) {
		if err != nil {
			t.Errorf("Renew of %d when the move has begun anew = %v", i, err)
		}
	})
	again.Finish()
	for _, c := range []picket.Claim{cs[0], cs[2]} {
		if err := s.Release(t.Context(), c); err != nil {
			t.Errorf("Release = %v", err)
		}
	}
}

// TestAClusterInTLSWithAPassword from end to end, in both protocols: a lease is held, waited for and handed over while its slot moves.
func TestAClusterInTLSWithAPassword(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.ClusterConfig{Replicas: -1, Servers: []redistest.Option{
		redistest.WithPassword(canary), redistest.WithTLS(redistest.TLS{Mutual: true}),
	}})
	for _, protocol := range []int{2, 3} {
		o := cluster.Options()
		o.Protocol = protocol
		c := redis.NewClusterClient(o)
		t.Cleanup(func() { _ = c.Close() })
		s, name := store(t, c), fmt.Sprint("RESP", protocol)
		record := "lock:{" + name + "}"
		lease := acquired(t, locker(t, s), name)
		var waiter sync.WaitGroup
		waiter.Go(func() { _ = acquired(t, locker(t, s), name).Release(t.Context()) })
		waiting(t, s, name, 1)
		move := cluster.Move(record, elsewhere(cluster, record))
		move.MoveKeys(record)
		if err := lease.Release(t.Context()); err != nil {
			t.Errorf("RESP%d: Release = %v", protocol, err)
		}
		move.Finish()
		waiter.Wait()
	}
}
