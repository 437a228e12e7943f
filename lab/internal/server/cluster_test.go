package server_test

import (
	"context"
	"net"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/picket-go/picket/lab/internal/server"
	"github.com/picket-go/picket/lab/internal/servertest"
)

func TestClusterSharesTheSlotsAndLeavesNothing(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	cluster := servertest.StartCluster(t, 3)
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs(), MaxRedirects: -1})
	defer client.Close()
	for i := range 300 {
		if err := client.Set(t.Context(), strconv.Itoa(i), "v", 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for _, node := range cluster.Nodes {
		if calls, err := node.Calls(t.Context()); err != nil || calls["set"] < 50 {
			t.Errorf("%s has %d of 300 keys, %v", node.Addr, calls["set"], err)
		}
	}
	cluster.Close()
	for _, addr := range cluster.Addrs() {
		if conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr); err == nil {
			_ = conn.Close()
			t.Errorf("%s is there after Close", addr)
		}
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}

func TestClusterThatIsInterruptedLeavesNothing(t *testing.T) {
	servertest.Start(t) // skips where there is none
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond) // it takes two seconds to serve
	defer cancel()
	if cluster, err := server.StartCluster(ctx, 3); err == nil {
		cluster.Close()
		t.Error("it served at once: a node may be asked before it takes writes")
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}
