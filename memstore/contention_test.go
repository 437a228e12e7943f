package memstore_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/picket-go/picket"
)

// work holds the key once and returns how long it waited: by wake-ups and polls as the Locker does, or by polls alone.
func (c client) work(id string, listen bool, inside *int) time.Duration {
	start := time.Now()
	cl := wait(id)
	cl.Recheck = 250 * time.Millisecond
	var wake <-chan struct{}
	if listen {
		w, stop, err := c.Watch(c.Context(), cl)
		if err != nil {
			c.Error(err)
			return 0
		}
		defer stop()
		wake = w
	}
	for {
		_, err := c.Acquire(c.Context(), cl)
		if err == nil {
			break
		}
		select {
		case <-wake:
		case <-time.After(cl.Recheck):
		}
	}
	waited := time.Since(start)
	*inside++
	if *inside != 1 {
		c.Errorf("%d holders at once", *inside)
	}
	time.Sleep(10 * time.Millisecond)
	*inside--
	if err := c.Release(c.Context(), cl); err != nil {
		c.Errorf("release of %s: %v", id, err)
	}
	return waited
}

// W2: without wake-ups each hand-off takes a poll longer, and nobody is forgotten.
func TestContendersExcludeEachOtherAndAllAreServed(t *testing.T) {
	const n, section = 40, 10 * time.Millisecond
	for name, test := range map[string]struct {
		listen bool
		most   time.Duration
	}{
		"woken":   {true, n * section},
		"polling": {false, n * (section + 250*time.Millisecond)},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(c client) {
				// Unguarded on purpose: the race detector sees two holders too.
				var inside int
				var wg sync.WaitGroup
				for i := range n {
					wg.Go(func() {
						if waited := c.work(fmt.Sprint("w", i), test.listen, &inside); waited > test.most {
							c.Errorf("w%d waited %s, want at most %s", i, waited, test.most)
						}
					})
				}
				wg.Wait()
				if st := c.status(); st.State != picket.StatusFree || st.Waiters != 0 {
					c.Errorf("left behind: %+v", st)
				}
			})
		})
	}
}
