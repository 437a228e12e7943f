package memstore_test

import (
	"testing"
	"time"

	"github.com/picket-go/picket"
	"github.com/picket-go/picket/memstore"
)

func BenchmarkAcquireRelease(b *testing.B) {
	s := memstore.New()
	c := picket.Claim{ID: "a", Key: "k", TTL: time.Second}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Acquire(b.Context(), c); err != nil {
			b.Fatal(err)
		}
		if err := s.Release(b.Context(), c); err != nil {
			b.Fatal(err)
		}
	}
}

func TestAcquireAndReleaseOfAFreeKeyAllocateLittle(t *testing.T) {
	for name, queue := range map[string]bool{"acquire": true, "try": false} {
		t.Run(name, func(t *testing.T) {
			s := memstore.New()
			c := picket.Claim{ID: "a", Key: "k", TTL: time.Second, Queue: queue}
			n := testing.AllocsPerRun(1000, func() {
				if _, err := s.Acquire(t.Context(), c); err != nil {
					t.Fatal(err)
				}
				if err := s.Release(t.Context(), c); err != nil {
					t.Fatal(err)
				}
			})
			if n > 3 {
				t.Errorf("acquire and release allocate %v times, want at most 3", n)
			}
		})
	}
}
