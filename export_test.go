package picket

import "time"

// SetAsleep replaces what the machine says of its sleep; the wall clock of a bubble does not jump. Call it before the first use of l.
func SetAsleep(l *Locker, asleep func() time.Duration) {
	l.core.clock.asleep, l.core.clock.before, l.core.clock.wary = asleep, asleep(), true
}

// Leftovers returns how many lines of waiters, leases, work and watched leases l's core still knows; an idle one knows none.
func Leftovers(l *Locker) int {
	c := l.core
	c.renewer.mu.Lock()
	watched := len(c.renewer.heap) + len(c.renewer.waiting) + c.renewer.flying
	c.renewer.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	return watched + len(c.lines) + len(c.leases) + c.busy
}

// TimerArmed reports whether the renewer of l has a timer running.
func TimerArmed(l *Locker) bool {
	r := &l.core.renewer
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.armed != 0
}

// Children returns how many contexts l has to end.
func Children(l *Lease) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.children)
}
