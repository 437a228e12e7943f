package memstore

import (
	"cmp"
	"slices"
	"time"

	"github.com/picket-go/picket"
)

// defaultLife is how long a waiter that does not say when it asks again lives on without asking.
const defaultLife = 10 * time.Second

// waiter is a claim that waits for a key.
type waiter struct {
	claim  picket.Claim
	ticket int64
	seen   time.Time // its last poll
	heard  bool      // it listened for wake-ups when it last polled
	passed bool      // it let a hand-off lapse, and others go first once
	mute   bool      // it has not polled since: it may be dead, and costs no second hand-off
}

func (w *waiter) alive(now time.Time) bool {
	if w.seen.After(now) {
		w.seen = now // else a clock that stepped back would keep the dead alive
	}
	life := defaultLife
	if w.claim.Recheck > 0 {
		life = 3*w.claim.Recheck + time.Second
	}
	return !now.After(w.seen.Add(life))
}

// queue is the waiters of one key by ticket: first in, first out.
type queue struct {
	line    []*waiter
	highest int64
}

// poll gives c a place at the end of the line, or keeps the one it has alive.
func (q *queue) poll(c picket.Claim, listens bool, now time.Time) {
	i := q.find(c.ID)
	if i < 0 {
		// A key that is held for days must not collect the dead meanwhile.
		q.purge(now)
		// Time alone would put two that came in the same microsecond, or after a step back, in no order.
		q.highest = max(q.highest+1, now.UnixMicro())
		q.line = append(q.line, &waiter{ticket: q.highest})
		i = len(q.line) - 1
	}
	w := q.line[i]
	w.claim, w.seen, w.heard, w.mute = c, now, listens, false
}

// leave takes the claim out of the line and reports whether it stood there.
func (q *queue) leave(id string) bool {
	i := q.find(id)
	if i >= 0 {
		q.line = slices.Delete(q.line, i, i+1)
	}
	return i >= 0
}

// putBack gives a waiter the place that its ticket says.
func (q *queue) putBack(w *waiter) {
	i, _ := slices.BinarySearchFunc(q.line, w.ticket, func(o *waiter, ticket int64) int { return cmp.Compare(o.ticket, ticket) })
	q.line = slices.Insert(q.line, i, w)
}

func (q *queue) purge(now time.Time) {
	q.line = slices.DeleteFunc(q.line, func(w *waiter) bool { return !w.alive(now) })
}

// next returns the first waiter that ready accepts. One that let a hand-off lapse is passed over until it has polled and another was served; the latter not if all that have
// polled let one lapse.
func (q *queue) next(ready func(*waiter) bool) *waiter {
	var passed *waiter
	for _, w := range q.line {
		if w.mute || !ready(w) {
			continue
		}
		if !w.passed {
			return w
		}
		passed = cmp.Or(passed, w)
	}
	if passed != nil {
		q.forgive()
	}
	return passed
}

// forgive ends the passing over of those that let a hand-off lapse.
func (q *queue) forgive() {
	for _, w := range q.line {
		w.passed = false
	}
}

// ahead counts the live waiters in front of the claim, or all if it is not in the line.
func (q *queue) ahead(id string, now time.Time) int {
	n := 0
	for _, w := range q.line {
		if w.claim.ID == id {
			break
		}
		if w.alive(now) {
			n++
		}
	}
	return n
}

func (q *queue) find(id string) int {
	return slices.IndexFunc(q.line, func(w *waiter) bool { return w.claim.ID == id })
}
