package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/picket-go/picket"
	"github.com/picket-go/picket/internal/redistest"
)

// TestAClusterThatLosesAMasterLosesNoLease (issue 5): 60 leases with TTL 10 s on all slots and a replica in sync. The master of a third of them is killed, or hangs: no lease is
// lost, and a lock of its slots is acquired within a second of the moment when the cluster takes writes for them again, which is asked beside it.
func TestAClusterThatLosesAMasterLosesNoLease(t *testing.T) {
	t.Parallel()
	for name, stop := range map[string]func(*redistest.Server){"killed": (*redistest.Server).Kill, "hangs": (*redistest.Server).Stop} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := redistest.StartCluster(t, redistest.ClusterConfig{})
			l := locker(t, store(t, cluster.Client(t)), picket.WithTTL(10*time.Second))
			var leases []*picket.Lease
			for i := range 60 {
				lease, err := l.Acquire(t.Context(), fmt.Sprint("held ", i))
				if err != nil {
					t.Fatal(err)
				}
				leases = append(leases, lease)
			}
			const key = "free"
			master := cluster.Master("lock:{" + key + "}")
			cluster.WaitInSync()
			stop(master)
			writes := make(chan time.Time, 1)
			go func() { writes <- whenWritten(t.Context(), cluster, master, "{"+key+"}") }()
			lease, err := l.Acquire(t.Context(), key)
			got := time.Now()
			if err != nil {
				t.Fatal(err)
			}
			again := <-writes
			t.Logf("acquired %v after the cluster takes writes again", got.Sub(again))
			if d := got.Sub(again); d > slow(time.Second) {
				t.Errorf("acquired %v after the cluster takes writes again", d)
			}
			time.Sleep(3500 * time.Millisecond) // each is renewed once
			for _, lease := range append(leases, lease) {
				if err := lease.Check(); err != nil {
					t.Errorf("%q: %v", lease.Key(), err)
				}
				if err := lease.Release(t.Context()); err != nil {
					t.Errorf("Release(%q) = %v", lease.Key(), err)
				}
			}
		})
	}
}

// whenWritten asks all servers but one to set the key, until one does.
func whenWritten(ctx context.Context, cluster *redistest.Cluster, without *redistest.Server, key string) time.Time {
	var clients []*redis.Client
	for _, s := range cluster.Servers() {
		if s != without {
			o := s.Options()
			o.MaxRetries = -1
			clients = append(clients, redis.NewClient(o))
		}
	}
	defer func() {
		for _, c := range clients {
			_ = c.Close()
		}
	}()
	for ctx.Err() == nil {
		for _, c := range clients {
			if c.Set(ctx, key, "x", 0).Err() == nil {
				return time.Now()
			}
		}
		time.Sleep(5 * time.Millisecond)
	}
	return time.Now()
}

// TestALeaseThatAPromotionForgetsIsLostToIt: the replica had not heard of it.
func TestALeaseThatAPromotionForgetsIsLostToIt(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.ClusterConfig{})
	l := locker(t, store(t, cluster.Client(t)), picket.WithTTL(10*time.Second))
	const key = "k"
	record := "lock:{" + key + "}"
	master := cluster.Master(record)
	if _, err := l.Acquire(t.Context(), "other"); err != nil { // the Store knows the Cluster before
		t.Fatal(err)
	}
	cluster.WaitInSync()
	cutOff(t, cluster, master)
	lease, err := l.Acquire(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	master.Kill()
	cluster.WaitPromoted(master, record)
	select {
	case <-lease.Done():
	case <-time.After(20 * time.Second):
		t.Fatal("it was not lost: the replica has got it all the same")
	}
	if err := lease.Check(); !errors.Is(err, picket.ErrLost) || !strings.Contains(err.Error(), string(picket.ReasonFailover)) {
		t.Errorf("Check = %v, want lost in a failover", err)
	}
	next, err := l.Acquire(t.Context(), key)
	if err != nil || next.Token() <= lease.Token() {
		t.Errorf("Acquire = %v, %v, want a token above %d", next, err, lease.Token())
	}
}
