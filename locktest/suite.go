// Package locktest is the conformance suite for any [picket.Store], ours or yours.
//
// [Run] turns each sentence of the Store's contract into a subtest of that name, against real time and, if the store has one, a real server.
// [Benchmark] has the benchmark bodies by which stores are compared.
//
//	func TestStore(t *testing.T) {
//		server := startServer(t)
//		locktest.Run(t, locktest.Config{
//			New: func(t *testing.T) picket.Store { return mystore.New(server.Connect(t)) },
//		})
//	}
//
// The suite never demands exact timing: a lease that should be over is compared with the moments its requests were sent and answered, so a slow
// machine makes the suite slow, not red.
package locktest

import (
	"testing"
	"time"

	"github.com/picket-go/picket"
)

// Config says what a store claims; Run tests all that is claimed, and that the rest is refused with ErrUnsupported.
type Config struct {
	// New returns another client of one and the same store, and closes it by t.Cleanup if it needs closing. The store need not be empty and may be shared
	// by all subtests: the suite's keys are random.
	New func(t *testing.T) picket.Store

	TTL       time.Duration // shortest usable TTL; default 200 ms
	NoExpiry  bool          // leases end with the process, not with time (filestore); LockDelay is refused
	NoQueue   bool          // no order among waiters (quorum, filestore)
	NoMinHold bool          // MinHold is refused
}

// Run tests everything that c claims.
func Run(t *testing.T, c Config) {
	t.Helper()
	if c.New == nil {
		t.Fatal("locktest: Config.New is nil")
	}
	if c.TTL <= 0 {
		c.TTL = defaultTTL
	}
	for _, th := range themes() {
		t.Run(th.name, func(t *testing.T) {
			t.Parallel()
			for _, ck := range th.checks {
				t.Run(ck.says, func(t *testing.T) {
					if lacks := c.lacks(ck.needs); lacks != "" {
						t.Skip("the store does not claim " + lacks)
					}
					t.Parallel()
					ck.run(newEnv(t, c))
				})
			}
		})
	}
}

const defaultTTL = 200 * time.Millisecond

func themes() []theme {
	return []theme{
		acquiring, renewing, releasing, undoing, expiring, tokens, queueing, waking, transferring,
		minHolding, lockDelaying, inspecting, operating, naming, refusing, cancelling, locking,
	}
}

// theme is one part of the contract.
type theme struct {
	name   string
	checks []check
}

// check is one sentence of the contract.
type check struct {
	says  string
	needs need
	run   func(e *env)
}

// need is what a store must claim for a check to concern it.
type need uint8

const (
	expiry need = 1 << iota
	endless
	queue
	minHold
	lockDelay
)

// lacks names the first of needs that c does not claim.
func (c Config) lacks(needs need) string {
	switch {
	case needs&expiry != 0 && c.NoExpiry:
		return "expiry"
	case needs&endless != 0 && !c.NoExpiry:
		return "leases that no clock ends"
	case needs&queue != 0 && c.NoQueue:
		return "a queue"
	case needs&minHold != 0 && c.NoMinHold:
		return "MinHold"
	case needs&lockDelay != 0 && c.NoExpiry:
		return "LockDelay"
	}
	return ""
}
