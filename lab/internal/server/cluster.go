package server

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Cluster is a Redis Cluster of masters that share the slots evenly. They have no replicas.
type Cluster struct {
	Nodes []*Server
	dir   string // where they keep their view of each other, which they cannot do without; a process that is killed leaves it behind
}

// StartCluster runs a Cluster and returns when each of its nodes says that it serves. That takes two seconds: a master waits so long before it takes writes (Redis' cluster.c,
// CLUSTER_WRITABLE_DELAY).
func StartCluster(ctx context.Context, masters int) (*Cluster, error) {
	dir, err := os.MkdirTemp("", "bench-cluster-")
	if err != nil {
		return nil, err
	}
	c := &Cluster{dir: dir}
	if err := c.start(ctx, masters); err != nil {
		c.Close()
		return nil, fmt.Errorf("a Cluster of %d: %w", masters, err)
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context, masters int) error {
	for range masters {
		s, err := startAs(ctx, c.node)
		if err != nil {
			return err
		}
		c.Nodes = append(c.Nodes, s)
	}
	for i := range c.Nodes {
		if err := c.join(ctx, i); err != nil {
			return err
		}
	}
	return c.await(ctx)
}

// node is the role of each server of c.
func (c *Cluster) node(port, bus int) []string {
	return []string{
		"--dir", c.dir, "--cluster-enabled", "yes", "--cluster-config-file", fmt.Sprintf("nodes-%d.conf", port),
		"--cluster-port", strconv.Itoa(bus), "--cluster-announce-ip", host,
	}
}

const slots = 16384

// join gives node i its share of the slots and introduces it to those before it: what they would tell each other of a third comes a few seconds later.
func (c *Cluster) join(ctx context.Context, i int) error {
	commands := [][]any{
		{"cluster", "addslotsrange", i * slots / len(c.Nodes), (i+1)*slots/len(c.Nodes) - 1},
		{"cluster", "set-config-epoch", i + 1}, // else all begin with the same, and settle that when they meet
	}
	for _, other := range c.Nodes[:i] {
		commands = append(commands, []any{"cluster", "meet", host, other.port, other.bus})
	}
	for _, command := range commands {
		if err := c.Nodes[i].admin.Do(ctx, command...).Err(); err != nil {
			return fmt.Errorf("%v: %w", command, err)
		}
	}
	return nil
}

// await returns when every node knows who serves each of the slots.
func (c *Cluster) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for _, node := range c.Nodes {
		for {
			info, err := node.admin.ClusterInfo(ctx).Result()
			if err != nil {
				return err
			}
			if strings.Contains(info, "cluster_state:ok") {
				break
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	return nil
}

// Addrs are those of all nodes.
func (c *Cluster) Addrs() (addrs []string) {
	for _, node := range c.Nodes {
		addrs = append(addrs, node.Addr)
	}
	return addrs
}

// Close ends the nodes and removes what they wrote.
func (c *Cluster) Close() {
	for _, node := range c.Nodes {
		node.Close()
	}
	_ = os.RemoveAll(c.dir) // What stays is in the system's folder for such.
}
