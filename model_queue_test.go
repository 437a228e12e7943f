package picket_test

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/picket-go/picket"
)

// waiting is who waits for a key, by what the server has answered: the queue as DESIGN 3.6 wants it, with nothing taken from the store's own.
type waiting struct {
	line   []*place
	handed *place // of line: the lock is its own if it confirms
}

// place is one claim in the line.
type place struct {
	id     string
	seen   time.Time // its last poll at the server
	life   time.Duration
	passed bool      // it let a hand-off lapse, and others go first once
	mute   bool      // it has not asked since: nothing is due to it
	shaken bool      // the server's clock has stepped back, and the server has not looked at it since
	unsure bool      // it was silent for longer than it may, so it may have lost its place
	upTo   time.Time // until when the server may believe to have seen it: seen, or later if the server's clock stepped back
}

// blur is the rounding of the server's times: within it of its end a waiter may count as dead or alive.
const blur = 2 * time.Millisecond

func (w *place) dead(now time.Time) bool { return !w.shaken && now.After(w.upTo.Add(w.life+blur)) }

// due says that w can be served, without doubt.
func (w *place) due(now time.Time, deaf deafness) bool {
	return !w.unsure && !w.mute && !deaf.maybe(w.id) && now.Before(w.seen.Add(w.life-blur))
}

func (q *waiting) find(id string) int {
	return slices.IndexFunc(q.line, func(w *place) bool { return w.id == id })
}

func (g *ledger) waits(key, id string) bool {
	q := g.queues[key]
	return q != nil && q.find(id) >= 0
}

func (q *waiting) remove(id string) {
	if i := q.find(id); i >= 0 {
		q.line = slices.Delete(q.line, i, i+1)
	}
	if q.handed != nil && q.handed.id == id {
		q.handed = nil
	}
}

func (q *waiting) poll(c picket.Claim, now time.Time) {
	i := q.find(c.ID)
	if i < 0 {
		q.line = append(q.line, &place{id: c.ID, seen: now, life: 3*c.Recheck + time.Second})
		i = len(q.line) - 1
	}
	w := q.line[i]
	// It may have been purged, before it is seen again.
	w.unsure = w.unsure || !now.Before(w.seen.Add(w.life-blur))
	w.seen, w.upTo, w.shaken, w.mute = now, now, false, false
}

// near is how many waiters redisstore looks at whenever it looks at the line, one less for who was handed the lock and is not in it.
const near = 15

// looked notes that the server has looked at those who wait: who was seen in what is the future now was seen now.
func (q *waiting) looked(now time.Time) {
	for _, w := range q.line[:min(near, len(q.line))] {
		if w.shaken && w != q.handed {
			w.upTo, w.shaken = now, false
		}
	}
}

func (q *waiting) forgive() {
	for _, w := range q.line {
		w.passed = false
	}
}

// judge compares what the server did in e with what the queue should have made of it.
func (g *ledger) judge(e effect, before, after picket.Status, deaf deafness) {
	q := g.queues[e.key]
	if q == nil {
		q = &waiting{}
		g.queues[e.key] = q
	}
	now := time.Now()
	if q.handed != nil && (before.State != picket.StatusHeld || before.Holder.ID != q.handed.id) {
		if before.State == picket.StatusCooling && before.Holder.ID == q.handed.id {
			g.violation(longWindow, "%q cools down after %s, which was handed it and has not confirmed", e.key, g.name(q.handed.id))
		}
		q.handed.passed, q.handed.mute, q.handed = true, true, nil // it may be slow and not dead
		g.count.lapsed++
	}
	done := e.err == nil || errors.Is(e.err, picket.ErrBusy)
	switch {
	case e.op == "release":
		q.remove(e.id)
	case e.op == "transfer" && errors.Is(e.err, picket.ErrLost): // a late request had made it wait
		q.remove(e.from)
	case e.op == "renew" || !done:
	case e.queued:
		q.poll(g.claims[e.id].claim, now)
	case e.err != nil || e.op == "transfer" && g.claims[e.id].swapped:
		q.remove(e.id)
	}
	switch {
	case granted(before, after):
		g.served(q, e, after, deaf, now)
	case e.err == nil && e.op != "release" && q.handed != nil && q.handed.id == e.id: // confirmed
		q.remove(e.id)
		q.forgive()
	case after.State == picket.StatusFree && (e.op == "release" || done):
		for _, w := range q.line {
			if w.due(now, deaf) {
				g.violation(leftLying, "%q is free after %s, but %s waits, last seen %s ago", e.key, g.show(e), g.name(w.id), now.Sub(w.seen))
			}
		}
	}
	if done && (e.op == "acquire" || e.op == "transfer") {
		q.looked(now)
	}
}

// deafness is who was deaf before the server did what it did, and after: a connection may end meanwhile.
type deafness struct{ before, after map[string]bool }

func (d deafness) surely(id string) bool { return d.before[id] && d.after[id] }
func (d deafness) maybe(id string) bool  { return d.before[id] || d.after[id] }

// served checks who got the lock, and how.
func (g *ledger) served(q *waiting, e effect, after picket.Status, deaf deafness, now time.Time) {
	id := after.Holder.ID
	outright := id == e.id && e.op != "release"
	i := q.find(id)
	if !outright {
		g.offered(q, e, after, deaf, now)
	}
	if swap := outright && e.op == "transfer" && g.claims[id].swapped; !swap {
		g.inOrder(q, e.key, id, i, deaf, now)
	}
	if outright {
		q.remove(id)
		q.forgive()
		return
	}
	if i >= 0 {
		if q.line[i].passed {
			q.forgive()
		}
		q.handed = q.line[i]
	}
}

// offered checks a hand-off to one that did not ask just now.
func (g *ledger) offered(q *waiting, e effect, after picket.Status, deaf deafness, now time.Time) {
	id := after.Holder.ID
	i := q.find(id)
	switch {
	case i < 0:
		g.violation(ghost, "%q was handed to %s, which does not wait", e.key, g.name(id))
		return
	case q.line[i].dead(now):
		g.violation(toTheDead, "%q was handed to %s, which was last seen %s ago", e.key, g.name(id), now.Sub(q.line[i].seen))
	case deaf.surely(id):
		g.violation(toTheDead, "%q was handed to %s, which listened and has hung up", e.key, g.name(id))
	case q.line[i].mute:
		g.violation(toTheDead, "%q was handed to %s, which has not asked since it let a hand-off lapse", e.key, g.name(id))
	}
	if limit := min(after.TTL, time.Second); after.Remaining > limit+blur {
		g.violation(longWindow, "%q was handed to %s for %s, and nobody has confirmed", e.key, g.name(id), after.Remaining)
	}
}

// inOrder checks that nobody was due before id, which stands at i of the line, or has no place.
func (g *ledger) inOrder(q *waiting, key, id string, i int, deaf deafness, now time.Time) {
	if i >= 0 && q.line[i].unsure {
		return
	}
	passed := i >= 0 && q.line[i].passed
	waits := i >= 0 || g.claims[id].claim.Queue // at the end of the line, since this very request
	for n, w := range q.line {
		ahead := i < 0 || n < i
		switch {
		case w.id == id || !w.due(now, deaf):
			if w.id != id && deaf.surely(w.id) {
				g.count.deaf++
			}
		case passed && !w.passed:
			g.violation(outOfOrder, "%q went to %s, which let its last hand-off lapse, and %s waits", key, g.name(id), g.name(w.id))
		case ahead && (!waits || passed || !w.passed):
			g.violation(outOfOrder, "%q went to %s, but %s was due, at %d of the line, last seen %s ago", key, g.name(id), g.name(w.id), n, now.Sub(w.seen))
		}
	}
}

// localTurn is how long the key has been handed on inside one process.
type localTurn struct {
	began  time.Time
	served int
	most   *int // as many as waited when it began
}

// asker is a process that wants a key.
type asker struct {
	process *process
	key     string
}

// askers are calls of one process that wait for a key.
type askers struct {
	n    int
	at   time.Time
	most []*int // of the turns that began then
}

func (g *ledger) askers(p *process, key string) *askers {
	at := asker{p, key}
	if g.asking[at] == nil {
		g.asking[at] = &askers{}
	}
	return g.asking[at]
}

// asks notes that a call of p waits for key, until the returned function.
func (g *ledger) asks(p *process, key string) (done func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	a := g.askers(p, key)
	a.n++
	if a.at.Equal(time.Now()) { // at one instant everything may have been before everything
		for _, most := range a.most {
			*most++
		}
	}
	return sync.OnceFunc(func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		a.n--
	})
}

// begins is a turn that begins now, for those who wait.
func (a *askers) begins() localTurn {
	now, most := time.Now(), a.n
	if !a.at.Equal(now) {
		a.at, a.most = now, nil
	}
	a.most = append(a.most, &most)
	return localTurn{began: now, most: &most}
}

// The limits of a local turn (DESIGN 3.6).
const (
	turnLimit   = 100 * time.Millisecond
	turnWaiters = 16
)

// swaps notes that p asks to hand the key on to a waiter of its own, past those who wait in the store or not.
func (g *ledger) swaps(from, to picket.Claim) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if to.Queue {
		return
	}
	g.claims[to.ID].swapped = true
	turn := g.claims[from.ID].turn
	if d := time.Since(turn.began); d > turnLimit+time.Millisecond || turn.served >= min(*turn.most, turnWaiters) {
		g.violation(longTurn, "%q is handed from %s to %s past all others, %s after the turn began, the %dth time; %d waited then",
			to.Key, g.name(from.ID), g.name(to.ID), d, turn.served+1, *turn.most)
	}
}

// swappedTo notes that the process of to has heard that it was granted in a transfer.
func (g *ledger) swappedTo(from, to picket.Claim, waiters int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if before := g.claims[from.ID].turn; !to.Queue && waiters != 0 {
		g.claims[to.ID].turn = localTurn{before.began, before.served + 1, before.most}
	}
}
