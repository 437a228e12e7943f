package picket

import (
	"testing"
	"time"
)

// A look that lost its core between the two readings sees too little; the next one must not be spared by it.
func TestALookThatSawTooLittleIsRepeated(t *testing.T) {
	readings := []time.Duration{0, 0, 0, 29 * time.Second, 30 * time.Second}
	i := 0
	asleep := func() time.Duration {
		d := readings[min(i, len(readings)-1)]
		i++
		return d
	}
	var c clock
	c.start(asleep)
	c.ahead.Store(-int64(30 * time.Second)) // the wall clock jumps by 30 s
	c.exact()
	if d := c.exact(); d < 30*time.Second {
		t.Errorf("the clock says %s, half a minute of sleep is missing a second for ever", d)
	}
}
