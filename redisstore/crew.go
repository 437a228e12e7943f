package redisstore

import (
	"sync"
	"sync/atomic"
	"time"
)

// crewLinger is how long a goroutine waits for more to do: starting one costs more than waking one.
const crewLinger = 100 * time.Millisecond

// crew is the Store's goroutines. They are started on demand, end soon after the last thing to do, and Close waits for them.
type crew struct {
	over atomic.Bool // no new work; written with mu held

	mu     sync.Mutex
	parked []chan func() // last in, first out, so that those at the front can go home
	spared int           // how many have been parked since the last look
	looks  bool          // a look is due
	timer  *time.Timer
	work   sync.WaitGroup // adds are guarded by mu
}

// enter counts the caller as work that Close waits for.
func (c *crew) enter() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over.Load() {
		return errClosed
	}
	c.work.Add(1)
	return nil
}

// run runs f on a goroutine of the crew's.
func (c *crew) run(f func()) error {
	c.mu.Lock()
	if c.over.Load() {
		c.mu.Unlock()
		return errClosed
	}
	if last := len(c.parked) - 1; last >= 0 {
		hand := c.parked[last]
		c.parked = c.parked[:last]
		c.spared = min(c.spared, last)
		c.mu.Unlock()
		hand <- f
		return nil
	}
	c.work.Add(1)
	c.mu.Unlock()
	go c.serve(f)
	return nil
}

func (c *crew) serve(f func()) {
	defer c.work.Done()
	hand := make(chan func(), 1)
	for ok := true; ok && c.step(f, hand); f, ok = <-hand {
	}
}

// step does f and parks the goroutine, unless the crew goes home.
func (c *crew) step(f func(), hand chan func()) bool {
	f()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over.Load() {
		return false
	}
	c.parked = append(c.parked, hand)
	if !c.looks {
		c.look()
	}
	return true
}

// look makes thin run after a while. mu is held.
func (c *crew) look() {
	c.looks = true
	if c.timer == nil {
		c.timer = time.AfterFunc(crewLinger, c.thin)
		return
	}
	c.timer.Reset(crewLinger)
}

// thin sends those home that had nothing to do since the last look.
func (c *crew) thin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, hand := range c.parked[:c.spared] {
		close(hand)
	}
	c.parked = append([]chan func(){}, c.parked[c.spared:]...)
	c.spared, c.looks = len(c.parked), false
	if len(c.parked) > 0 && !c.over.Load() {
		c.look()
	}
}

// dismiss ends the crew's work; what is under way goes on.
func (c *crew) dismiss() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over.Store(true)
	for _, hand := range c.parked {
		close(hand)
	}
	c.parked, c.spared = nil, 0
	if c.timer != nil {
		c.timer.Stop()
	}
}
