package measure

import (
	"context"

	"github.com/picket-go/picket/lab/internal/result"
	"github.com/picket-go/picket/lab/internal/server"
)

// masters are how many nodes the Cluster has.
const masters = 3

// Cluster measures the pairs on a Cluster of its own.
func (b *Bench) Cluster(ctx context.Context) error {
	b.progress("cluster: starting %d masters", masters)
	cluster, err := server.StartCluster(ctx, masters)
	if err != nil {
		return err
	}
	defer cluster.Close()
	for round := range b.Plan.Rounds {
		if err := b.pairsRound(ctx, cluster, round, result.ClusterBy(crowd), result.ClusterBy(16)); err != nil {
			return err
		}
	}
	return nil
}
