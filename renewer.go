package picket

import (
	"cmp"
	"container/heap"
	"slices"
	"sync"
	"time"

	"github.com/picket-go/picket/internal/lease"
)

const (
	batchSize   = 256
	batchBound  = 2 * time.Second
	batchFlying = 16                     // calls that may be under way at once
	batchSlow   = 100 * time.Millisecond // a call that takes longer no longer counts as under way: a dead node must not stop the renewals of healthy ones
)

// renewer watches all leases of a core: one heap by the time when something is due, one timer, no goroutine while nothing is due (DESIGN 3.3).
type renewer struct {
	core *core

	mu      sync.Mutex
	heap    dueHeap
	timer   *time.Timer
	armed   lease.Instant // when the timer fires; 0: it does not
	stopped bool
	flying  int
	waiting []*batch // sorted by what ends first
}

// add watches l until remove.
func (r *renewer) add(l *Lease) {
	due, slack := l.nextDue()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped || due == lease.Forever {
		return
	}
	l.due, l.slack = due, slack
	heap.Push(&r.heap, l)
	r.arm()
}

// fix looks again when something is due for l; a lease that is not watched stays so.
func (r *renewer) fix(l *Lease) {
	due, slack := l.nextDue()
	r.mu.Lock()
	defer r.mu.Unlock()
	if l.slot < 0 {
		return
	}
	l.due, l.slack = due, slack
	heap.Fix(&r.heap, l.slot)
	r.arm()
}

func (r *renewer) remove(l *Lease) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l.slot >= 0 {
		heap.Remove(&r.heap, l.slot)
	}
	if len(r.heap) == 0 && r.armed != 0 {
		r.timer.Stop()
		r.armed = 0
	}
}

// stop ends the watch over all leases.
func (r *renewer) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped = true
	for _, l := range r.heap {
		l.slot = -1
	}
	r.heap, r.waiting, r.armed = nil, nil, 0
	if r.timer != nil {
		r.timer.Stop()
	}
}

// arm sets the timer if the first due time is earlier than what it is set to; a spurious firing costs less than a reset for each release.
func (r *renewer) arm() {
	if len(r.heap) == 0 || r.stopped {
		return
	}
	due := max(r.heap[0].due, 1)
	if due == lease.Forever || r.armed != 0 && r.armed <= due {
		return
	}
	r.armed = due
	d := max(0, due-r.core.clock.now())
	if r.timer == nil {
		r.timer = time.AfterFunc(d, r.fire)
	} else {
		r.timer.Reset(d)
	}
}

// fire runs on the timer's goroutine.
func (r *renewer) fire() {
	if !r.core.hold() {
		return
	}
	defer r.core.leave()
	now := r.core.clock.exact()
	var renew []*renewal
	for _, l := range r.take(now) {
		n, after := l.tick(now)
		if n != nil {
			renew = append(renew, n)
		}
		r.fix(l)
		after.run()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting = append(r.waiting, batches(renew)...)
	slices.SortStableFunc(r.waiting, func(a, b *batch) int { return cmp.Compare(a.first, b.first) })
	r.launch()
	r.armed = 0
	r.arm()
}

// take returns the leases for which something is due, and those whose renewal is due so soon that it may as well go with the rest.
func (r *renewer) take(now lease.Instant) (due []*Lease) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.heap) > 0 && r.heap[0].due <= now+r.heap[0].slack {
		l := r.heap[0]
		due = append(due, l)
		l.due, l.slack = lease.Forever, 0 // stays watched, out of the way; fix sets it right
		heap.Fix(&r.heap, 0)
	}
	return due
}

// launch sends waiting batches while there is room. mu is held.
func (r *renewer) launch() {
	for len(r.waiting) > 0 && r.flying < batchFlying {
		b := r.waiting[0]
		r.waiting = r.waiting[1:]
		if !r.core.spawn(func() { r.fly(b) }) {
			return
		}
		r.flying++
	}
}

func (r *renewer) fly(b *batch) {
	landed := sync.OnceFunc(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.flying--
		r.launch()
	})
	slow := time.AfterFunc(batchSlow, landed)
	defer slow.Stop()
	defer landed()
	b.send(r.core)
}

// dueHeap is a heap by due.
type dueHeap []*Lease

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].due < h[j].due }
func (h dueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].slot, h[j].slot = i, j
}

func (h *dueHeap) Push(x any) {
	l := x.(*Lease)
	l.slot = len(*h)
	*h = append(*h, l)
}

func (h *dueHeap) Pop() any {
	old := *h
	l := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	l.slot = -1
	return l
}
