package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/picket-go/picket"
	"github.com/picket-go/picket/internal/redistest"
	"github.com/picket-go/picket/redisstore"
)

// neighbours are n names that live in one slot.
func neighbours(n int) []string {
	slot := redisstore.SlotText("lock:{n0}")
	names := []string{"n0"}
	for i := 1; len(names) < n; i++ {
		if name := "n" + strconv.Itoa(i); redisstore.SlotText("lock:{"+name+"}") == slot {
			names = append(names, name)
		}
	}
	return names
}

// elsewhere is a master that has not got the slot of the key.
func elsewhere(cluster *redistest.Cluster, key string) *redistest.Server {
	has := cluster.Master(key)
	for _, m := range cluster.Masters() {
		if m != has {
			return m
		}
	}
	return nil
}

// TestALockLivesOnWhileItsSlotMoves (issue 5; GL-62; W3): 200 leases with TTL 3 s and 50 waiters in one slot, which moves key by key over ten seconds. No lease is lost, a
// release works at any time, and the waiters of each lock are served in the order in which they came.
func TestALockLivesOnWhileItsSlotMoves(t *testing.T) {
	t.Parallel()
	const (
		leases, contended, each = 200, 10, 5
		over                    = 10 * time.Second
	)
	cluster := redistest.StartCluster(t, redistest.ClusterConfig{Replicas: -1})
	names := neighbours(leases + 1)
	free := names[leases]
	holder := locker(t, store(t, cluster.Client(t)), picket.WithTTL(3*time.Second))
	held := make([]*picket.Lease, leases)
	for i := range held {
		var err error
		if held[i], err = holder.Acquire(t.Context(), names[i]); err != nil {
			t.Fatal(err)
		}
	}
	served, waiters := queueUp(t, cluster, names[:contended], each)

	move := cluster.Move("lock:{"+free+"}", elsewhere(cluster, "lock:{"+free+"}"))
	keys := len(move.Keys())
	t.Logf("%d keys", keys)
	began, moved, released := time.Now(), 0, 0
	var calls sync.WaitGroup
	for move.Step(1) > 0 {
		moved++
		for released < contended && moved >= keys*(released+1)/(contended+2) {
			lease := held[released]
			released++
			calls.Go(func() {
				from := time.Now()
				if err := lease.Release(t.Context()); err != nil {
					t.Errorf("Release(%q) after %v = %v", lease.Key(), time.Since(from), err)
				}
			})
		}
		if moved%10 == 0 { // a lock without a key can be had at once
			calls.Go(func() {
				err := holder.Do(t.Context(), free, func(context.Context, *picket.Lease) error { return nil })
				if err != nil {
					t.Errorf("a free lock: %v", err)
				}
			})
		}
		time.Sleep(time.Until(began.Add(over * time.Duration(moved) / time.Duration(keys))))
	}
	calls.Wait()
	move.Finish()
	waiters.Wait()
	close(served)
	judgeOrder(t, served, contended*each)
	for _, lease := range held[contended:] {
		if err := lease.Check(); err != nil {
			t.Errorf("%q: %v", lease.Key(), err)
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Errorf("Release(%q) at the end = %v", lease.Key(), err)
		}
	}
}

// service is that a waiter got in.
type service struct {
	name  string
	place int
	token int64
}

// queueUp has each wait for each of the names, one after the other, with Stores of their own: the place is the order in which they came. A waiter that is served releases.
func queueUp(t *testing.T, cluster *redistest.Cluster, names []string, each int) (chan service, *sync.WaitGroup) {
	t.Helper()
	served := make(chan service, len(names)*each)
	waiters := new(sync.WaitGroup)
	inspector := store(t, cluster.Client(t))
	for place := range each {
		own := locker(t, store(t, cluster.Client(t)), picket.WithTTL(3*time.Second))
		for _, name := range names {
			waiters.Go(func() {
				lease, err := own.Acquire(t.Context(), name)
				if err != nil {
					t.Errorf("waiter %d of %q: %v", place, name, err)
					return
				}
				served <- service{name, place, lease.Token()}
				if err := lease.Release(t.Context()); err != nil {
					t.Errorf("waiter %d of %q: release: %v", place, name, err)
				}
			})
		}
		for _, name := range names {
			waiting(t, inspector, name, place+1)
		}
	}
	return served, waiters
}

func judgeOrder(t *testing.T, served chan service, want int) {
	t.Helper()
	next, last, n := map[string]int{}, map[string]int64{}, 0
	for s := range served {
		n++
		if s.place != next[s.name] {
			t.Errorf("%q: waiter %d was served as number %d", s.name, s.place, next[s.name])
		}
		if s.token <= last[s.name] {
			t.Errorf("%q: token %d after %d", s.name, s.token, last[s.name])
		}
		next[s.name]++
		last[s.name] = s.token
	}
	if n != want {
		t.Errorf("%d of %d waiters were served", n, want)
	}
}

// TestEveryOperationFollowsASlotThatIsHalfMoved: whichever of a lock's keys have gone first.
func TestEveryOperationFollowsASlotThatIsHalfMoved(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.ClusterConfig{Replicas: -1})
	s := store(t, cluster.Client(t))
	for i, first := range []string{"none", ":fence", "", "all"} {
		name := fmt.Sprint("half ", i)
		record := "lock:{" + name + "}"
		c := claim(name)
		g, err := s.Acquire(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		move := cluster.Move(record, elsewhere(cluster, record))
		switch first {
		case "none":
		case "all":
			move.MoveKeys(record, record+":fence")
		default:
			move.MoveKeys(record + first)
		}
		fail := func(op string, err error) { t.Errorf("%s moved: %s = %v", first, op, err) }
		s.Renew(t.Context(), []picket.Claim{c}, func(_ int, err error) {
			if err != nil {
				fail("Renew", err)
			}
		})
		if st, err := s.Inspect(t.Context(), name); err != nil || st.State != picket.StatusHeld || st.Token != g.Token || st.Holder.ID != c.ID {
			fail(fmt.Sprintf("Inspect: %+v", st), err)
		}
		if again, err := s.Acquire(t.Context(), c); err != nil || again.Token != g.Token {
			fail(fmt.Sprintf("Acquire again: %+v", again), err)
		}
		if _, err := s.Acquire(t.Context(), claim(name)); !errors.Is(err, picket.ErrBusy) {
			fail("Acquire by another", err)
		}
		if err := s.Release(t.Context(), c); err != nil {
			fail("Release", err)
		}
		move.Finish()
		later, err := s.Acquire(t.Context(), claim(name))
		if err != nil || later.Token <= g.Token {
			fail(fmt.Sprintf("Acquire afterwards: %+v", later), err)
		}
	}
}
