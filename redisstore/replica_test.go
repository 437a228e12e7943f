package redisstore_test

import (
	"errors"
	"testing"
	"time"

	"github.com/picket-go/picket"
	"github.com/picket-go/picket/internal/redistest"
	"github.com/picket-go/picket/locktest"
	"github.com/picket-go/picket/redisstore"
)

// TestAGrantThatReplicasDoNotHaveIsUndone covers D1: no key, no renewal, a typed error, and WAIT on the grant's own connection.
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
	_, err := s.Acquire(t.Context(), claim("k"))
	short, ok := errors.AsType[*redisstore.ReplicasError](err)
	if !ok || short.Got != 0 || short.Want != 1 || !errors.Is(err, picket.ErrUnavailable) {
		t.Errorf("Acquire = %v, want a *ReplicasError with 0 of 1", err)
	}
	if n := c.Exists(t.Context(), "lock:{k}", "lock:{k}:gone").Val(); n != 0 {
		t.Error("the grant was not undone")
	}
	if _, err = l.TryAcquire(t.Context(), "k"); !errors.Is(err, picket.ErrUnavailable) {
		t.Errorf("TryAcquire = %v, want ErrUnavailable", err)
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
}

// TestOneWaitIsForAllGrantsOfACall, and what it does not secure is undone for each of them.
func TestOneWaitIsForAllGrantsOfACall(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	replica := redistest.Start(t, redistest.ReplicaOf(master))
	c := client(t, master)
	s := store(t, c, redisstore.WithReplicas(1, 500*time.Millisecond))
	busy := func() bool { // for one of those that follow
		_, err := s.Acquire(t.Context(), claim("k0"))
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
	if keys := c.Keys(t.Context(), "lock:{*}").Val(); len(keys) > 0 {
		t.Errorf("grants are left: %v", keys)
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
