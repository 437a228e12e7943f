package picket

import (
	"sync/atomic"
	"time"

	"github.com/picket-go/picket/internal/lease"
)

// clock is the holder's: monotonic, and it goes on while the machine sleeps. The wall clock may jump as it likes.
//
// Go's monotonic clock stands still in suspend on Linux (golang/go#24595), so what the machine slept is added. Only that is taken from the system: in a synctest bubble the
// rest is virtual.
type clock struct {
	epoch  time.Time
	asleep func() time.Duration
	before time.Duration // asleep at the epoch
	slept  atomic.Int64  // since then, as last seen
	ahead  atomic.Int64  // of the wall clock before this one, when exact last looked at the sleep
	wary   bool          // looks always
}

// noSuspend is shorter than any suspend: two readings of one clock can be microseconds apart.
const noSuspend = int64(5 * time.Millisecond)

// start begins the clock in place: it must not be copied.
func (c *clock) start(asleep func() time.Duration) {
	c.epoch, c.asleep = time.Now(), asleep
	c.before = max(asleep(), asleep(), asleep()) // one of them was not interrupted
}

// now returns the time since the clock was started. It may have missed a sleep since the last exact: good for the moment before a request, where too early is safe.
func (c *clock) now() lease.Instant { return time.Since(c.epoch) + time.Duration(c.slept.Load()) }

// at is when the clock of package time shows what this one shows at i, if the machine does not sleep until then.
func (c *clock) at(i lease.Instant) time.Time {
	return c.epoch.Add(i - time.Duration(c.slept.Load()))
}

// exact is now after a look at the machine's sleep. The look costs two system calls, so it is taken only if the wall clock has jumped: every sleep makes it jump.
func (c *clock) exact() lease.Instant {
	t := time.Now()
	since := t.Sub(c.epoch)
	ahead := int64(t.Round(0).Sub(c.epoch.Round(0)) - since)
	if jump := ahead - c.ahead.Load(); jump < -noSuspend/5 || jump > noSuspend/5 || c.wary {
		c.look()
		c.ahead.Store(ahead)
	}
	return since + time.Duration(c.slept.Load())
}

func (c *clock) look() {
	slept := int64(max(c.asleep(), c.asleep(), c.asleep()) - c.before) // as in start: exact takes what it says for all that the jump was
	if old := c.slept.Load(); slept-old > noSuspend {
		c.slept.CompareAndSwap(old, slept)
	}
}
