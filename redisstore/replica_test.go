package redisstore_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/picket-go/picket"
	"github.com/picket-go/picket/internal/redistest"
	"github.com/picket-go/picket/locktest"
	"github.com/picket-go/picket/redisstore"
)

// TestAGrantThatReplicasDoNotHaveIsUndone covers D1: no key, no renewal, a typed error that Lockers hand on, and WAIT on the grant's own connection.
func TestAGrantThatReplicasDoNotHaveIsUndone(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	replica := redistest.Start(t, redistest.ReplicaOf(master))
	c := client(t, master)
	reports := make(chan *redisstore.ReplicasError, 100)
	s := store(t, c, redisstore.WithReplicas(1, 100*time.Millisecond), redisstore.WithReplicaReport(func(e *redisstore.ReplicasError) { reports <- e }))
	l := locker(t, s, picket.WithTTL(2*time.Second))
	lease := acquired(t, l, "held")

	replica.Stop()
	c1 := claim("k")
	_, err := s.Acquire(t.Context(), c1)
	wantReplicasError(t, err, "k")
	if unsent(err) {
		t.Errorf("Acquire = %v without doubt, but its record may be there", err)
	}
	if c.Exists(t.Context(), "lock:{k}").Val() == 0 { // another call of the same claim may have been granted meanwhile
		t.Error("the call has undone its claim")
	}
	c1.Doubt = true
	if err := s.Release(t.Context(), c1); err != nil {
		t.Errorf("Release = %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond) // the last attempt ends by its deadline
	defer cancel()
	_, err = l.TryAcquire(ctx, "k1")
	wantReplicasError(t, err, "k1")
	ctx, cancel = context.WithTimeout(t.Context(), 700*time.Millisecond)
	defer cancel()
	_, err = l.Acquire(ctx, "k2")
	wantReplicasError(t, err, "k2")
	undone := func() bool { return c.Exists(t.Context(), "lock:{k}", "lock:{k1}", "lock:{k2}").Val() == 0 }
	if !eventually(2*time.Second, undone) {
		t.Error("a grant was not undone")
	}
	select { // a renewal is only reported
	case e := <-reports:
		if e.Key != "" || e.Want != 1 {
			t.Errorf("reported %+v", e)
		}
	case <-time.After(2 * time.Second):
		t.Error("the renewal without replica was not reported")
	}
	if err := lease.Check(); err != nil {
		t.Errorf("the lease is over because of a replica: %v", err)
	}
	replica.Cont()
	if !eventually(10*time.Second, func() bool {
		lease, err := l.TryAcquire(t.Context(), "k")
		return err == nil && lease.Release(t.Context()) == nil
	}) {
		t.Error("no grant after the replica came back")
	}
	_ = lease.Release(t.Context())
}

// wantReplicasError wants an error that says, in its tree and in its text, that the one replica has not acknowledged key.
func wantReplicasError(t *testing.T, err error, key string) {
	t.Helper()
	short, ok := errors.AsType[*redisstore.ReplicasError](err)
	if !ok || short.Key != key || short.Got != 0 || short.Want != 1 || !errors.Is(err, picket.ErrUnavailable) ||
		!strings.Contains(err.Error(), "only 0 of 1 replicas") || strings.Contains(err.Error(), "no answer") {
		t.Errorf("%v, want ErrUnavailable and a *ReplicasError for %q with 0 of 1", err, key)
	}
}

// TestAWaitForReplicasThatIsLongerThanAnAttemptStillTellsWhatIsMissing: WAIT answers before the attempt is cut off.
func TestAWaitForReplicasThatIsLongerThanAnAttemptStillTellsWhatIsMissing(t *testing.T) {
	t.Parallel()
	l := locker(t, store(t, client(t, redistest.Start(t)), redisstore.WithReplicas(1, time.Minute)))
	ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
	defer cancel()
	_, err := l.TryAcquire(ctx, "k")
	wantReplicasError(t, err, "k")
}

// TestAReleaseIsNoLossWhenReplicasDoNotHaveTheNextGrant: the key was handed to a waiter of the same Locker, which cannot use it yet.
func TestAReleaseIsNoLossWhenReplicasDoNotHaveTheNextGrant(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	replica := redistest.Start(t, redistest.ReplicaOf(master))
	s := store(t, client(t, master), redisstore.WithReplicas(1, 100*time.Millisecond))
	l := locker(t, s)
	lease := acquired(t, l, "k")
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { _ = acquired(t, l, "k").Release(context.WithoutCancel(t.Context())) })
	if !eventually(5*time.Second, func() bool {
		st, err := s.Inspect(t.Context(), "k")
		return err == nil && st.Waiters == 1
	}) {
		t.Fatal("nobody waits")
	}
	replica.Stop()
	defer replica.Cont()
	if err := lease.Release(t.Context()); err != nil {
		t.Errorf("Release = %v", err)
	}
}

// TestOneWaitIsForAllGrantsOfACall, and what it does not secure counts for none of them.
func TestOneWaitIsForAllGrantsOfACall(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	replica := redistest.Start(t, redistest.ReplicaOf(master))
	c := client(t, master)
	s := store(t, c, redisstore.WithReplicas(1, 500*time.Millisecond))
	first := claim("k0")
	busy := func() bool { // for one of those that follow
		_, err := s.Acquire(t.Context(), first)
		return err == nil
	}
	if !eventually(5*time.Second, busy) {
		t.Fatal("the replica does not acknowledge")
	}
	before := master.CommandStats()["wait"]
	const n = 50
	for key, err := range together(t, master, s, n).errs {
		if busy := errors.Is(err, picket.ErrBusy); busy != (key == "k0") || !busy && err != nil {
			t.Errorf("Acquire(%q) = %v", key, err)
		}
	}
	if waits := master.CommandStats()["wait"] - before; waits < 1 || waits > n/4 {
		t.Errorf("%d grants were waited for %d times", n, waits)
	}
	replica.Stop()
	c.FlushDB(t.Context())
	for key, err := range together(t, master, s, n).errs {
		if short, ok := errors.AsType[*redisstore.ReplicasError](err); !ok || short.Key != key {
			t.Errorf("Acquire(%q) = %v, want its *ReplicasError", key, err)
		}
	}
}

// TestWaitAOFIsRefusedWhereTheServerLacksIt: Redis 7.0 does not know WAITAOF. The message says what is needed.
func TestWaitAOFIsRefusedWhereTheServerLacksIt(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.StartProxy(t, server.Addr(), 1)
	proxy.Sometimes(1, redistest.Answer("ERR unknown command 'waitaof', with args beginning with: '1' '0' '100'"), "waitaof")
	c := behind(t, server, proxy)
	_, err := store(t, c, redisstore.WithAOF(0, 100*time.Millisecond)).Acquire(t.Context(), claim("k"))
	if !errors.Is(err, picket.ErrRefused) {
		t.Errorf("Acquire = %v, want ErrRefused", err)
	}
	if n := client(t, server).Exists(t.Context(), "lock:{k}").Val(); n != 0 {
		t.Error("the grant was not undone")
	}
}

// TestTheStoreKeepsTheContractBehindSentinel covers F1: after a promotion the holder learns, and tokens rise.
func TestTheStoreKeepsTheContractBehindSentinel(t *testing.T) {
	if testing.Short() {
		t.Skip("six servers")
	}
	t.Parallel()
	sentinels := redistest.StartSentinels(t, redistest.SentinelConfig{})
	t.Run("contract", func(t *testing.T) {
		locktest.Run(t, locktest.Config{New: func(t *testing.T) picket.Store { return store(t, sentinels.FailoverClient(t)) }})
	})
	var renewed renewals
	l := locker(t, store(t, sentinels.FailoverClient(t)), picket.WithTTL(6*time.Second), renewed.option())
	kept := acquired(t, l, "kept")
	renewed.await(t, 1, 4*time.Second) // so that the Store knows the server
	sentinels.WaitReplicas(1)
	old := sentinels.Master()
	sentinels.CutReplication()
	forgotten := acquired(t, l, "forgotten") // acknowledged, and not replicated
	old.Kill()
	sentinels.WaitPromoted(old)
	lost := lostIn(t, forgotten, 15*time.Second)
	if lost.Reason != picket.ReasonFailover && lost.Reason != picket.ReasonUnreachable {
		t.Errorf("lost for the reason %q, want failover", lost.Reason)
	}
	next := acquired(t, l, "forgotten")
	if next.Token() <= forgotten.Token() {
		t.Errorf("token %d follows %d", next.Token(), forgotten.Token())
	}
	t.Logf("lost: %v; the replicated lease: %v", lost, kept.Check())
	_ = next.Release(t.Context())
}

// TestAReplicaThatLagsBehindLosesNothing: an address may lead to a replica that has not heard of the lock, when names or services switch. What it lacks is not lost.
func TestAReplicaThatLagsBehindLosesNothing(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	replica := redistest.Start(t, redistest.ReplicaOf(master))
	c := claim("k")
	s := store(t, client(t, replica))
	all := operations(s)
	for _, op := range []string{"acquire", "release", "renew", "transfer", "reissue"} {
		err := all[op](t.Context(), c)
		if !errors.Is(err, picket.ErrUnavailable) || errors.Is(err, picket.ErrLost) || !strings.Contains(err.Error(), "is a replica") {
			t.Errorf("%s = %v, want ErrUnavailable because of the replica", op, err)
		}
	}
}
