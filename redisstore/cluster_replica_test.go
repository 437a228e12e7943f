package redisstore_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/picket-go/picket"
	"github.com/picket-go/picket/internal/redistest"
	"github.com/picket-go/picket/redisstore"
)

// ackBound is long enough for a replica that lives.
const ackBound = 400 * time.Millisecond

// replicated is a Cluster whose masters have one replica each, and nobody is promoted.
type replicated struct {
	*redistest.Cluster
	masters []*redistest.Server
	replica map[*redistest.Server]*redistest.Server
	names   map[*redistest.Server][]string // on each of the masters
	used    map[*redistest.Server]int
}

// store is a Store that has a map of the Cluster, because go-redis asks one server after the other for it, and waits for seconds for one that stands still; and that has several
// connections to each master, so that it could ask on the wrong one for replicas.
func (r *replicated) store(t *testing.T, opts ...redisstore.Option) *redisstore.Store {
	t.Helper()
	s := store(t, r.Client(t), opts...)
	var names []string
	for i := range 24 {
		names = append(names, fmt.Sprint("warm ", i))
	}
	cs, errs, _ := acquireAll(t, s, names)
	for i, c := range cs {
		if err := errors.Join(errs[i], s.Release(t.Context(), c)); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// fresh is a name on m that no part of the test has used.
func (r *replicated) fresh(m *redistest.Server) string {
	r.used[m]++
	return r.names[m][r.used[m]-1]
}

// without has the replica of m stand still during f.
func (r *replicated) without(m *redistest.Server, f func()) {
	r.WaitInSync()
	r.replica[m].Stop()
	defer r.replica[m].Cont()
	f()
}

// waits is how often each of the masters was told to wait for its replicas.
func (r *replicated) waits() (n int64) {
	for _, m := range r.masters {
		n += m.CommandStats()["wait"]
	}
	return n
}

// TestAGrantOnAClusterNeedsTheReplicaOfItsOwnMaster shares one among its parts, each of which takes names of its own.
func TestAGrantOnAClusterNeedsTheReplicaOfItsOwnMaster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.ClusterConfig{NodeTimeout: time.Minute})
	r := &replicated{Cluster: cluster, masters: cluster.Masters(), replica: map[*redistest.Server]*redistest.Server{}, used: map[*redistest.Server]int{}}
	for _, m := range r.masters {
		r.replica[m] = cluster.Replicas(m)[0]
	}
	r.names = onEach(t, cluster, 12)
	for name, part := range map[string]func(*testing.T, *replicated){
		"one replica stands still":                  grantsWithoutAReplica,
		"renewals are reported":                     renewalsWithoutAReplica,
		"a slot that is half moved":                 grantsOfHalfASlot,
		"a slot that is moved but not given":        grantsOfAMovedSlot,
		"without combining each waits for its own":  grantsApart,
		"a hand-off to a waiter needs it like each": handOffsWithoutAReplica,
	} {
		t.Run(name, func(t *testing.T) { part(t, r) })
	}
}

// acquireAll has a claim of its own ask for each of the names at the same time, and returns what each was told, and the longest that one took which was granted.
func acquireAll(t *testing.T, s picket.Store, names []string) (cs []picket.Claim, errs []error, longest time.Duration) {
	t.Helper()
	cs, errs = make([]picket.Claim, len(names)), make([]error, len(names))
	took := make([]time.Duration, len(names))
	var wg sync.WaitGroup
	for i, name := range names {
		cs[i] = claim(name)
		wg.Go(func() {
			began := time.Now()
			if _, errs[i] = s.Acquire(t.Context(), cs[i]); errs[i] == nil {
				took[i] = time.Since(began)
			}
		})
	}
	wg.Wait()
	return cs, errs, slices.Max(took)
}

func grantsWithoutAReplica(t *testing.T, r *replicated) {
	const bound = time.Second
	s := r.store(t, redisstore.WithReplicas(1, bound))
	lame := r.masters[0]
	var names []string
	for range 2 {
		for _, m := range r.masters {
			names = append(names, r.fresh(m))
		}
	}
	on := func(i int) *redistest.Server { return r.masters[i%len(r.masters)] }
	var cs []picket.Claim
	r.without(lame, func() {
		var errs []error
		var longest time.Duration
		cs, errs, longest = acquireAll(t, s, names)
		for i, err := range errs {
			if on(i) == lame {
				wantReplicasError(t, err, names[i])
			} else if err != nil {
				t.Errorf("Acquire(%q) = %v, but its master has its replica", names[i], err)
			}
		}
		if longest > slow(bound*3/10) {
			t.Errorf("a grant beside those without replica took %v", longest)
		}
	})
	r.WaitInSync()
	for i, c := range cs { // the same claims again
		if _, err := s.Acquire(t.Context(), c); err != nil {
			t.Errorf("Acquire(%q) with the replica back = %v", names[i], err)
		}
		if err := s.Release(t.Context(), c); err != nil {
			t.Errorf("Release(%q) = %v", names[i], err)
		}
	}
}

func renewalsWithoutAReplica(t *testing.T, r *replicated) {
	var mu sync.Mutex
	var reports []*redisstore.ReplicasError
	s := r.store(t, redisstore.WithReplicas(1, ackBound), redisstore.WithReplicaReport(func(e *redisstore.ReplicasError) {
		mu.Lock()
		defer mu.Unlock()
		reports = append(reports, e)
	}))
	lame, target := r.masters[0], r.masters[1]
	var names []string
	for _, m := range r.masters {
		names = append(names, r.fresh(m))
	}
	held := holdAll(t, s, names)
	renew := func(when string, want int, cs ...picket.Claim) {
		t.Helper()
		for i, err := range renewAll(t, s, cs) {
			if err != nil {
				t.Errorf("%s: Renew(%q) = %v", when, cs[i].Key, err)
			}
		}
		mu.Lock()
		defer mu.Unlock()
		if len(reports) != want {
			t.Errorf("%s: %d reports, want %d", when, len(reports), want)
		}
		for _, e := range reports {
			if e.Key != "" || e.Got != 0 || e.Want != 1 {
				t.Errorf("%s: reported %+v", when, e)
			}
		}
		reports = nil
	}
	renew("all replicas are there", 0, held...)
	r.without(lame, func() {
		renew("a replica stands still", 1, held[:1]...)
		renew("that of another master stands still", 0, held[1:]...)
		renew("that of one master of three stands still", 1, held...)
	})
	move := r.Move(recordOf(names[0]), target)
	move.MoveKeys(recordOf(names[0]))
	r.without(lame, func() { renew("the record has moved from where the replica stands still", 0, held[0]) })
	r.without(target, func() { renew("the record has moved to where the replica stands still", 1, held[0]) })
	move.Finish()
	r.without(target, func() { renew("the slot has moved to where the replica stands still", 1, held[0]) })
	r.Move(recordOf(names[0]), lame).Finish()
}

// grantsOfHalfASlot: who has it may ask again, but it is told that it has it only if the replica knows.
func grantsOfHalfASlot(t *testing.T, r *replicated) {
	s := r.store(t, redisstore.WithReplicas(1, ackBound))
	source, target := r.masters[0], r.masters[1]
	for _, first := range []string{"", ":fence"} {
		c := claim(r.fresh(source))
		record, has := recordOf(c.Key), source
		if first == "" {
			has = target
		}
		var move *redistest.Migration
		r.without(source, func() {
			_, err := s.Acquire(t.Context(), c)
			wantReplicasError(t, err, c.Key)
			move = r.Move(record, target)
			move.MoveKeys(record + first)
			if _, err := s.Acquire(t.Context(), c); has == source && err == nil {
				t.Errorf("%q moved: Acquire again = %v, but no replica has the record", first, err)
			} else if has == target && err != nil {
				t.Errorf("%q moved: Acquire again = %v, but the target's replica has the record", first, err)
			}
		})
		r.without(target, func() {
			if _, err := s.Acquire(t.Context(), c); has == target && err == nil {
				t.Errorf("%q moved: Acquire again = %v, but no replica of the target has it", first, err)
			} else if has == source && err != nil {
				t.Errorf("%q moved: Acquire again = %v, but the source's replica has the record", first, err)
			}
		})
		move.Finish()
		if _, err := s.Acquire(t.Context(), c); err != nil {
			t.Errorf("%q moved first: Acquire after the move = %v", first, err)
		}
		if err := s.Release(t.Context(), c); err != nil {
			t.Errorf("Release = %v", err)
		}
		r.Move(record, source).Finish()
	}
}

// grantsOfAMovedSlot: no key is left at the source, so the target grants.
func grantsOfAMovedSlot(t *testing.T, r *replicated) {
	s := r.store(t, redisstore.WithReplicas(1, ackBound))
	source, target := r.masters[0], r.masters[1]
	name := r.fresh(source)
	move := r.Move(recordOf(name), target)
	grant := func(when string, lame *redistest.Server, granted bool) {
		t.Helper()
		r.without(lame, func() {
			c := claim(name)
			if _, err := s.Acquire(t.Context(), c); granted && err != nil {
				t.Errorf("%s: Acquire = %v", when, err)
			} else if !granted {
				wantReplicasError(t, err, name)
			}
			if err := s.Release(t.Context(), c); err != nil {
				t.Errorf("%s: Release = %v", when, err)
			}
		})
	}
	grant("the source's replica stands still", source, true)
	grant("the target's replica stands still", target, false)
	move.Finish()
	grant("the source's replica stands still, and the slot is gone", source, true)
	grant("the target's replica stands still, and the slot is there", target, false)
	r.Move(recordOf(name), source).Finish()
}

func grantsApart(t *testing.T, r *replicated) {
	const n = 60
	for _, opts := range [][]redisstore.Option{{redisstore.WithoutCombining()}, nil} {
		s := r.store(t, append(opts, redisstore.WithReplicas(1, ackBound))...)
		var names []string
		for i := range n {
			names = append(names, fmt.Sprint("apart ", i))
		}
		before := r.waits()
		cs, errs, _ := acquireAll(t, s, names)
		waits := r.waits() - before
		if apart := opts != nil; apart && waits != n || waits > n || waits < int64(len(r.masters)) {
			t.Errorf("%d grants were waited for %d times, without combining: %v", n, waits, apart)
		}
		for i, err := range errs {
			if err != nil {
				t.Errorf("Acquire(%q) = %v", names[i], err)
			}
			if err := s.Release(t.Context(), cs[i]); err != nil {
				t.Errorf("Release(%q) = %v", names[i], err)
			}
		}
	}
}

// handOffsWithoutAReplica: the hand-off itself is not waited for, its confirmation is.
func handOffsWithoutAReplica(t *testing.T, r *replicated) {
	s := r.store(t, redisstore.WithReplicas(1, ackBound))
	for _, m := range r.masters[:2] {
		c := holdAll(t, s, []string{r.fresh(m)})[0]
		w := listen(t, s, []string{c.Key})[0]
		r.without(m, func() {
			if err := s.Release(t.Context(), c); err != nil {
				t.Errorf("Release = %v", err)
			}
			w.heard(t, time.Now())
			_, err := s.Acquire(t.Context(), w.claim)
			wantReplicasError(t, err, c.Key)
		})
		r.WaitInSync()
		w.serve(t)
	}
}
