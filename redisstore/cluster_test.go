package redisstore_test

import (
	"testing"

	"github.com/picket-go/picket"
	"github.com/picket-go/picket/internal/redistest"
	"github.com/picket-go/picket/locktest"
)

func TestTheStoreKeepsTheContractOnACluster(t *testing.T) {
	cluster := redistest.StartCluster(t, redistest.ClusterConfig{Replicas: -1})
	locktest.Run(t, locktest.Config{New: func(t *testing.T) picket.Store { return store(t, cluster.Client(t)) }})
}
