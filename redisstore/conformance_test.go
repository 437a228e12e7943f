package redisstore_test

import (
	"testing"
	"time"

	"github.com/picket-go/picket"
	"github.com/picket-go/picket/internal/redistest"
	"github.com/picket-go/picket/locktest"
)

func TestStoreKeepsTheContract(t *testing.T) {
	server := redistest.Shared(t)
	locktest.Run(t, locktest.Config{New: func(t *testing.T) picket.Store { return store(t, client(t, server)) }})
}

// TestTheStoreKeepsTheContractThroughANetworkThatIsSlowNowAndThen (issue 3, the proxy in its calm mode): what comes late is not lost.
func TestTheStoreKeepsTheContractThroughANetworkThatIsSlowNowAndThen(t *testing.T) {
	proxy := redistest.StartProxy(t, redistest.Shared(t).Addr(), 7)
	proxy.Sometimes(0.05, redistest.Delay(redistest.Replies, 0, 5*time.Millisecond))
	locktest.Run(t, locktest.Config{New: func(t *testing.T) picket.Store { return store(t, behind(t, redistest.Shared(t), proxy)) }})
}
