package rival_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/picket-go/picket/lab/internal/rival"
	"github.com/picket-go/picket/lab/internal/server"
	"github.com/picket-go/picket/lab/internal/servertest"
)

// It shows that the round trips of all are counted in the same way, however much their scripts call: each pair is two.
func TestEachPairIsTwoRoundTrips(t *testing.T) {
	t.Parallel()
	for _, r := range rival.All() {
		t.Run(r.Name, func(t *testing.T) {
			t.Parallel()
			eachPairIsTwoRoundTrips(t, r, []*server.Server{servertest.Start(t)})
		})
	}
}

// It shows that nobody is redirected, and that nobody leaves a lock behind on one of the nodes.
func TestEachPairOnAClusterIsTwoRoundTrips(t *testing.T) {
	t.Parallel()
	cluster := servertest.StartCluster(t, 3)
	for _, r := range rival.All() {
		t.Run(r.Name, func(t *testing.T) { eachPairIsTwoRoundTrips(t, r, cluster.Nodes) })
	}
}

func eachPairIsTwoRoundTrips(t *testing.T, r rival.Rival, nodes []*server.Server) {
	t.Helper()
	var addrs []string
	for _, node := range nodes {
		addrs = append(addrs, node.Addr)
	}
	client, err := r.Open(addrs)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	const keys = 50
	pairs := func() {
		for i := range keys {
			if err := client.Do(ctx, fmt.Sprintf("k%d", i), func() {}); err != nil {
				t.Fatal(err)
			}
		}
	}
	pairs() // loads scripts
	before := roundTrips(t, r, nodes)
	pairs()
	after, sum := roundTrips(t, r, nodes), int64(0)
	for i, node := range nodes {
		n := after[i] - before[i]
		if n == 0 {
			t.Errorf("%s had nothing to do", node.Addr)
		}
		sum += n
	}
	if sum != 2*keys {
		t.Errorf("%d pairs are %d round trips, want %d", keys, sum, 2*keys)
	}
}

// roundTrips are those of r with each of the nodes.
func roundTrips(t *testing.T, r rival.Rival, nodes []*server.Server) (n []int64) {
	t.Helper()
	for _, node := range nodes {
		calls, err := node.Calls(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		n = append(n, r.RoundTrips(calls))
	}
	return n
}

func TestEveryRivalWaitsAndIsFreeAgain(t *testing.T) {
	t.Parallel()
	for _, r := range rival.All() {
		if !r.Waits {
			continue
		}
		t.Run(r.Name, func(t *testing.T) {
			t.Parallel()
			addrs := servertest.Start(t).Addrs()
			var clients []rival.Client
			for range 2 {
				c, err := r.Open(addrs)
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				clients = append(clients, c)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			waited := make(chan error, 1)
			released := make(chan struct{})
			err := clients[0].Do(ctx, "k", func() {
				short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
				defer cancel()
				if err := clients[1].Do(short, "k", func() { t.Error("two were inside") }); err == nil {
					t.Error("a busy lock was granted")
				}
				go func() { waited <- clients[1].Do(ctx, "k", func() { <-released }) }()
			})
			close(released)
			if err := errors.Join(err, <-waited); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestSelectKeepsTheOrderAndNamesTheChoice(t *testing.T) {
	t.Parallel()
	got, err := rival.Select([]string{"raw", "picket"})
	if err != nil || len(got) != 2 || got[0].Name != "picket" || got[1].Name != "raw" {
		t.Errorf("Select = %v, %v", got, err)
	}
	if _, err := rival.Select([]string{"chubby"}); err == nil {
		t.Error("an unknown rival was selected")
	}
}
