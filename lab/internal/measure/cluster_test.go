package measure

import (
	"context"
	"testing"
	"time"

	"github.com/picket-go/picket/lab/internal/result"
	"github.com/picket-go/picket/lab/internal/rival"
	"github.com/picket-go/picket/lab/internal/servertest"
)

func TestPairsOnTheClusterAreNotThoseOnTheServer(t *testing.T) {
	t.Parallel()
	b := &Bench{Plan: Plan{Rounds: 1, Pairs: 20 * time.Millisecond}, Server: servertest.Start(t)}
	b.Rivals = []rival.Rival{{Name: "fake", Open: func(addrs []string) (rival.Client, error) {
		if len(addrs) != masters {
			t.Errorf("opened at %q, want %d masters", addrs, masters)
		}
		return fake(func(_ context.Context, _ string, fn func()) error {
			fn()
			return nil
		}), nil
	}}}
	if err := b.Cluster(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, callers := range []int{256, 16} {
		if v, ok := b.Samples.Median(result.ClusterBy(callers).By("fake").Of(PairsPerSecond)); !ok || v <= 0 {
			t.Errorf("%v pairs a second of %d callers, measured: %t", v, callers, ok)
		}
		if v, ok := b.Samples.Median(result.PairsBy(callers).By("fake").Of(PairsPerSecond)); ok {
			t.Errorf("%v pairs a second are said to be of %d callers of one server", v, callers)
		}
	}
}
