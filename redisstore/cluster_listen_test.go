package redisstore_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/picket-go/picket"
	"github.com/picket-go/picket/internal/redistest"
	"github.com/picket-go/picket/redisstore"
)

// onEach are n names on each of the masters.
func onEach(t testing.TB, cluster *redistest.Cluster, n int) map[*redistest.Server][]string {
	t.Helper()
	shards, err := cluster.Servers()[0].Client(t).ClusterShards(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	names := map[*redistest.Server][]string{}
	for _, m := range cluster.Masters() {
		own := slices.IndexFunc(shards, func(s redis.ClusterShard) bool {
			return slices.ContainsFunc(s.Nodes, func(n redis.Node) bool { return m.Addr() == fmt.Sprint(n.IP, ":", n.Port) })
		})
		for i := 0; len(names[m]) < n; i++ {
			name := fmt.Sprint("on each ", i)
			slot, _ := strconv.ParseInt(redisstore.SlotText(recordOf(name)), 10, 64)
			if slices.ContainsFunc(shards[own].Slots, func(r redis.SlotRange) bool { return r.Start <= slot && slot <= r.End }) {
				names[m] = append(names[m], name)
			}
		}
	}
	return names
}

// subscribed are the ids of the server's subscription connections.
func subscribed(t testing.TB, server *redistest.Server) (ids []string) {
	t.Helper()
	text, err := server.Client(t).Do(t.Context(), "client", "list", "type", "pubsub").Text()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(text) {
		id, _, _ := strings.Cut(line, " ")
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// subscribedAll are those of each of the masters.
func subscribedAll(t testing.TB, cluster *redistest.Cluster) map[*redistest.Server][]string {
	t.Helper()
	all := map[*redistest.Server][]string{}
	for _, m := range cluster.Masters() {
		all[m] = subscribed(t, m)
	}
	return all
}

// listener is a waiter that does not poll: what it hears of, it was told.
type listener struct {
	*redisstore.Store
	claim picket.Claim
	wake  <-chan struct{}
}

// heard wants the wake-up to come soon, and returns how long it took.
func (l listener) heard(t *testing.T, since time.Time) time.Duration {
	t.Helper()
	select {
	case <-l.wake:
	case <-time.After(slow(5 * time.Second)):
		t.Errorf("the waiter for %q hears nothing", l.claim.Key)
	}
	return time.Since(since)
}

// silent wants that it was not told anything yet.
func (l listener) silent(t *testing.T) {
	t.Helper()
	select {
	case <-l.wake:
		t.Errorf("the waiter for %q was told something", l.claim.Key)
	default:
	}
}

// serve has the listener take what it was told of and give it back.
func (l listener) serve(t *testing.T) {
	t.Helper()
	if _, err := l.Acquire(t.Context(), l.claim); err != nil {
		t.Errorf("Acquire(%q) of who was woken = %v", l.claim.Key, err)
	}
	if err := l.Release(t.Context(), l.claim); err != nil {
		t.Errorf("Release(%q) = %v", l.claim.Key, err)
	}
}

// listen has a waiter of s queue up for each of the names.
func listen(t *testing.T, s *redisstore.Store, names []string) (all []listener) {
	t.Helper()
	for _, name := range names {
		c, wake := waits(t, s, name)
		all = append(all, listener{s, c, wake})
	}
	return all
}

// wakeUp is how long a wake-up may take. Three times that is still less than the shortest pause between two polls, or before a connection is opened again, which is 250 ms.
const wakeUp = 80 * time.Millisecond

// brisk wants nine of ten wake-ups to come so soon. A machine that is busy may be slow with the others.
func brisk(t *testing.T, took []time.Duration) {
	t.Helper()
	slices.Sort(took)
	t.Logf("%d wake-ups took from %v to %v", len(took), took[0], took[len(took)-1])
	if d := took[len(took)*9/10]; d > slow(wakeUp) {
		t.Errorf("a tenth of %d wake-ups took %v or more", len(took), d)
	}
}

// TestWaitersForNamesOfManySlotsListenOnOneConnectionToEachNode (W3, C26): all are woken, the two that wait for a name one after the other; nothing of what a Cluster says
// to a client that is wrong is said to them; and when nobody listens any more, nothing is left. It is alone, as it looks at all goroutines.
func TestWaitersForNamesOfManySlotsListenOnOneConnectionToEachNode(t *testing.T) {
	cluster := redistest.StartCluster(t, redistest.ClusterConfig{Replicas: -1})
	var names []string
	for i := range 50 {
		names = append(names, fmt.Sprint("k", i))
	}
	holder := store(t, cluster.Client(t))
	held := holdAll(t, holder, names)
	stores := []*redisstore.Store{store(t, cluster.Client(t)), store(t, cluster.Client(t))}
	t.Run("they wait", func(t *testing.T) {
		for _, s := range stores {
			listenTogether(t, s, names)
		}
		first, second := listen(t, stores[0], names), listen(t, stores[1], names)
		for m, ids := range subscribedAll(t, cluster) {
			if len(ids) != len(stores) {
				t.Errorf("%s has %d subscription connections of %d Stores", m.Addr(), len(ids), len(stores))
			}
		}
		var took []time.Duration
		for i, c := range held {
			first[i].silent(t)
			released := time.Now()
			if err := holder.Release(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			took = append(took, first[i].heard(t, released))
			second[i].silent(t)
			given := time.Now()
			first[i].serve(t)
			took = append(took, second[i].heard(t, given))
			second[i].serve(t)
		}
		brisk(t, took)
	})
	neverAnswered(t, cluster, "CROSSSLOT", "MOVED")
	if n := len(listeners()); n < len(stores) {
		t.Errorf("%d goroutines listen for %d Stores: this test does not know them", n, len(stores))
	}
	if !eventually(slow(5*time.Second), func() bool { return len(slices.Concat(slices.Collect(maps.Values(subscribedAll(t, cluster)))...)) == 0 }) {
		t.Errorf("subscription connections when nobody waits: %v", subscribedAll(t, cluster))
	}
	if !eventually(slow(5*time.Second), func() bool { return len(listeners()) == 0 }) {
		t.Errorf("goroutines that listened are left: %s", listeners())
	}
}

// listenTogether listens to all names at once for a moment, so that many are subscribed together.
func listenTogether(t *testing.T, s *redisstore.Store, names []string) {
	t.Helper()
	var wg sync.WaitGroup
	for _, name := range names {
		wg.Go(func() {
			_, stop, err := s.Watch(t.Context(), claim(name))
			if err != nil {
				t.Errorf("Watch(%q) = %v", name, err)
				return
			}
			stop()
		})
	}
	wg.Wait()
}

// listeners are the stacks of the goroutines that listen.
func listeners() []string {
	return slices.DeleteFunc(goroutines(), func(stack string) bool { return !strings.Contains(stack, "redisstore.(*subscriber)") })
}

// TestSubscriptionsOnAllNodesAreCutOffAgainAndAgain (W2): polls find what was not heard. Who does not hear may be passed over, so the order is not asked for.
func TestSubscriptionsOnAllNodesAreCutOffAgainAndAgain(t *testing.T) {
	t.Parallel()
	const each = 5
	cluster := redistest.StartCluster(t, redistest.ClusterConfig{Replicas: -1})
	var names []string
	for _, some := range onEach(t, cluster, 1) {
		names = append(names, some...)
	}
	l := locker(t, store(t, cluster.Client(t)))
	var held []*picket.Lease
	for _, name := range names {
		held = append(held, acquired(t, l, name))
	}
	var killer sync.WaitGroup
	var killed atomic.Int64
	stop := make(chan struct{})
	for _, m := range cluster.Masters() {
		admin := m.Client(t)
		killer.Go(func() {
			tick := time.NewTicker(5 * time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case <-tick.C:
					n, _ := admin.Do(t.Context(), "client", "kill", "type", "pubsub").Int64()
					killed.Add(n)
				case <-stop:
					return
				}
			}
		})
	}
	served, waiters := queueUp(t, cluster, names, each)
	began := time.Now()
	for _, lease := range held {
		if err := lease.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	waiters.Wait()
	took := time.Since(began)
	close(stop)
	killer.Wait()
	close(served)
	last, n := map[string]int64{}, 0
	for s := range served {
		if n++; s.token <= last[s.name] {
			t.Errorf("%q: token %d after %d", s.name, s.token, last[s.name])
		}
		last[s.name] = s.token
	}
	t.Logf("%d in %v, with %d subscriptions killed", n, took, killed.Load())
	// At worst each hand-off waits for a poll of whoever is first in line, and that is every 250 ms.
	if most := each * 300 * time.Millisecond; n != each*len(names) || killed.Load() == 0 || took > slow(most) {
		t.Errorf("%d of %d are in, after %v, with %d subscriptions killed, want at most %v", n, each*len(names), took, killed.Load(), most)
	}
}

// TestWaitersFollowASlotThatMovesAway: nobody changes the lock meanwhile, so nothing but the server's word tells them. Those for names of other slots do not feel it.
func TestWaitersFollowASlotThatMovesAway(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.ClusterConfig{Replicas: -1})
	groups, masters := onEach(t, cluster, 3), cluster.Masters()
	holder, s := store(t, cluster.Client(t)), store(t, cluster.Client(t))
	var names []string
	for i := range 3 {
		for _, m := range masters {
			names = append(names, groups[m][i])
		}
	}
	held, ws := holdAll(t, holder, names), listen(t, s, names)
	before := subscribedAll(t, cluster)
	var took []time.Duration
	handOver := func(i int) {
		released := time.Now()
		if err := holder.Release(t.Context(), held[i]); err != nil {
			t.Fatal(err)
		}
		took = append(took, ws[i].heard(t, released))
		ws[i].serve(t)
	}
	for i, name := range names[:2*len(masters)] {
		cluster.Move(recordOf(name), masters[(i+1)%len(masters)]).Finish()
		if i < len(masters) { // the others have the lock released before they can have found its new node
			took = append(took, ws[i].heard(t, time.Now())) // it may have missed something, so it asks
			if _, err := s.Acquire(t.Context(), ws[i].claim); !errors.Is(err, picket.ErrBusy) {
				t.Errorf("Acquire(%q) = %v, want ErrBusy", name, err)
			}
			ws[i].silent(t)
		}
		handOver(i)
	}
	for _, w := range ws[2*len(masters):] {
		w.silent(t)
	}
	if after := subscribedAll(t, cluster); !maps.EqualFunc(before, after, slices.Equal[[]string]) {
		t.Errorf("the subscription connections were %v, are %v", before, after)
	}
	for i := 2 * len(masters); i < len(names); i++ {
		handOver(i)
	}
	brisk(t, took)
}

// TestWaitersOfANodeThatDiesAreWokenAfterThePromotion: their connection has gone with it, and what was handed out meanwhile they have not heard.
func TestWaitersOfANodeThatDiesAreWokenAfterThePromotion(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.ClusterConfig{})
	groups, masters := onEach(t, cluster, 3), cluster.Masters()
	holder, s := store(t, cluster.Client(t)), store(t, cluster.Client(t))
	dying, others := groups[masters[0]], slices.Concat(groups[masters[1]], groups[masters[2]])
	held, heldElsewhere := holdAll(t, holder, dying), holdAll(t, holder, others)
	ws, rest := listen(t, s, dying), listen(t, s, others)
	before := subscribedAll(t, cluster)
	cluster.WaitInSync()
	masters[0].Kill()
	next := cluster.WaitPromoted(masters[0], recordOf(dying[0]))
	promoted := time.Now()
	for i, w := range ws {
		t.Logf("woken %v after the promotion", w.heard(t, promoted))
		if _, err := s.Acquire(t.Context(), w.claim); !errors.Is(err, picket.ErrBusy) {
			t.Errorf("Acquire(%q) = %v, want ErrBusy", dying[i], err)
		}
	}
	if took := time.Since(promoted); took > slow(time.Second) {
		t.Errorf("the last is woken %v after the promotion", took)
	}
	if !eventually(slow(5*time.Second), func() bool { _, err := holder.Inspect(t.Context(), dying[0]); return err == nil }) {
		t.Fatal("the holder's Store does not find the new master")
	}
	var took []time.Duration
	for i, w := range slices.Concat(rest, ws) {
		w.silent(t)
		released := time.Now()
		if err := holder.Release(t.Context(), slices.Concat(heldElsewhere, held)[i]); err != nil {
			t.Fatal(err)
		}
		took = append(took, w.heard(t, released))
		w.serve(t)
	}
	brisk(t, took)
	after := subscribedAll(t, cluster)
	if len(after[next]) != 1 || !slices.Equal(before[masters[1]], after[masters[1]]) || !slices.Equal(before[masters[2]], after[masters[2]]) {
		t.Errorf("the subscription connections were %v, are %v", before, after)
	}

	hanging := masters[1] // keeps its connections
	key := groups[hanging][0]
	lease := acquired(t, locker(t, holder), key)
	var in sync.WaitGroup
	var at time.Time
	in.Go(func() {
		lease := acquired(t, locker(t, s), key)
		at = time.Now()
		_ = lease.Release(t.Context())
	})
	waiting(t, holder, key, 1)
	cluster.WaitInSync()
	hanging.Stop()
	cluster.WaitPromoted(hanging, recordOf(key))
	if err := lease.Release(t.Context()); err != nil {
		t.Errorf("Release = %v", err)
	}
	released := time.Now()
	in.Wait()
	t.Logf("in %v after the release", at.Sub(released))
	if took := at.Sub(released); took > confirmWindow+slow(time.Second) {
		t.Errorf("whose node hangs is in %v after the release", took)
	}
	hanging.Cont()
}
