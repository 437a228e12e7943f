package redisstore

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/picket-go/picket/internal/bound"
)

const (
	laneClaims  = 64                    // in one call: the server does nothing else meanwhile, for a fraction of a millisecond
	laneBytes   = 64 << 10              // of one call, as names may be long
	laneFlying  = 2                     // calls under way
	laneFull    = 3                     // if more could not make the next one any larger
	laneYields  = 4                     // to callers that may want to leave together again
	laneOverdue = 50 * time.Millisecond // a call that takes longer no longer counts as under way: a connection that is stuck must not stop the others
)

// carrier sends what es ask for, with args for the arguments, and gives each its outcome. It returns args to be used again.
type carrier func(ctx context.Context, es []*entry, args []any) []any

// lane is the way of claims to the server. While calls are under way, claims that arrive gather, and leave together in one call (DESIGN 4.2). A claim that finds the lane
// free leaves alone and at once.
type lane struct {
	node   *node
	carry  carrier
	limit  time.Duration // of one call
	claims int           // in one call
	flying int           // calls under way, not counting those overdue
	most   int           // counting them

	mu      sync.Mutex
	air     []*flight // under way
	waiting []*entry
	spare   [][]any   // for the arguments of calls
	alarm   time.Time // when timer fires; zero: not set
	timer   *time.Timer
}

// ask sends e and returns its answer. It returns soon after ctx ends, whatever the network does. The caller must not use e any more, unless the answer is a redirect.
func (l *lane) ask(ctx context.Context, e *entry) (answer, error) {
	err := ctx.Err()
	switch {
	case err != nil:
		err = unsentError{err}
	case l.node.store.crew.over.Load():
		err = errClosed
	default:
		err = l.travel(ctx, e)
	}
	about := e.subject
	var a answer
	if e.left == nil { // nobody else knows it
		a = e.answer
		if err == nil {
			err = e.err
		}
		if err == nil { // else a hook of the client may have given the call up, and its command is still to be sent
			l.node.store.recycle(e)
		}
	}
	if err != nil {
		return answer{}, l.node.store.failed(ctx, about, err)
	}
	return a, a.failure(about)
}

// travel returns when the outcome is in e, or the error of a caller that has left.
func (l *lane) travel(ctx context.Context, e *entry) error {
	ends := bound.EndsOf(ctx)
	f := l.board(ctx, e, ends)
	switch {
	case f == nil:
	case e.direct:
		defer l.finish(f) // also when a hook of the client panics, and the caller lives on
		l.fly(f)
		return nil
	default:
		l.launch(f)
	}
	return l.await(ctx, ends, e)
}

// finish lands a call that this goroutine made; another one goes on if somebody waits.
func (l *lane) finish(f *flight) {
	if next := l.land(f); next != nil {
		l.launch(next)
	}
}

// board returns the flight that may leave at once because of e: of e alone, or of those who waited for e to make it full. Else e waits for company.
func (l *lane) board(ctx context.Context, e *entry, ends bound.Ends) *flight {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	e.until = ends.Deadline
	if !l.free(now) {
		l.waiting = append(l.waiting, e)
		l.setAlarm(now, e.until)
		if !l.free(now) {
			return nil
		}
		return l.take(now)
	}
	e.sent, e.direct, e.alone[0] = true, obeys(ends), e
	f := newFlight(ctx, now, l.limit, e.alone[:])
	// Who can leave need not break a connection for it; but a wait for replicas is to end before its caller does, who is told of them.
	if d, ok := ctx.Deadline(); ok && (e.direct || l.node.store.durable()) && d.Before(f.until) {
		f.until = d
	}
	l.begin(f)
	return f
}

// begin counts f as under way. mu is held.
func (l *lane) begin(f *flight) {
	l.air = append(l.air, f)
	l.setAlarm(f.began, f.until)
}

// free reports whether another call may begin. mu is held, as it is for setAlarm and take.
func (l *lane) free(now time.Time) bool {
	if len(l.air) < l.flying {
		return true
	}
	if len(l.air) >= l.most {
		return false
	}
	flying := l.flying
	if len(l.waiting) >= l.claims {
		flying = max(flying, laneFull)
	}
	fresh := 0
	for _, f := range l.air {
		if now.Sub(f.began) < laneOverdue {
			fresh++
		}
	}
	return fresh < flying
}

// setAlarm sees to it that ring looks in time after calls that are overdue, and after what ends then. One timer serves all: a timer for each would cost more than the rest.
func (l *lane) setAlarm(now, ends time.Time) {
	at := now.Add(laneOverdue)
	if !ends.IsZero() && ends.Before(at) {
		at = ends
	}
	if !l.alarm.IsZero() && !at.Before(l.alarm) {
		return
	}
	l.alarm = at
	if l.timer == nil {
		l.timer = time.AfterFunc(at.Sub(now), l.ring)
		return
	}
	l.timer.Reset(at.Sub(now))
}

// ring ends the calls and the waiting whose time is over, and sends those that wait if the calls that they wait for are stuck.
func (l *lane) ring() {
	now := time.Now()
	l.mu.Lock()
	l.alarm = time.Time{}
	l.sweep(now, l.waiting)
	for _, f := range l.air {
		if !f.expire(now) {
			l.setAlarm(now, f.until)
		}
		l.sweep(now, f.es)
	}
	var next *flight
	if len(l.waiting) > 0 && l.free(now) {
		next = l.take(now)
	}
	l.mu.Unlock()
	if next != nil {
		l.launch(next)
	}
}

// sweep lets the callers of es leave whose time is over. mu is held.
func (l *lane) sweep(now time.Time, es []*entry) {
	for _, e := range es {
		switch {
		case e.direct || e.told.Load():
		case e.until.IsZero() || e.until.After(now):
			l.setAlarm(now, e.until)
		case e.leave(e.late()):
			e.done <- signal{}
		}
	}
}

// take makes a flight of those that wait, of as many as may go in one call.
func (l *lane) take(now time.Time) *flight {
	size, n := 0, 0
	es := make([]*entry, 0, min(l.claims, len(l.waiting)))
	for _, e := range l.waiting {
		if len(es) == l.claims || len(es) > 0 && size+len(e.text) > laneBytes {
			break
		}
		n++
		if e.told.Load() { // its caller has left
			continue
		}
		e.sent = true
		size += len(e.text)
		es = append(es, e)
	}
	l.waiting = slices.Delete(l.waiting, 0, n)
	if len(es) == 0 {
		return nil
	}
	f := newFlight(bound.None(), now, l.limit, es) // none of their contexts may end it
	if last := len(l.spare) - 1; last >= 0 {
		f.args, l.spare = l.spare[last], l.spare[:last]
	}
	l.begin(f)
	return f
}

// unload tells those of the flight, whom then nobody but their callers knows, and returns how many they are.
func (l *lane) unload(f *flight) int {
	l.mu.Lock()
	es := f.es
	f.es = nil
	l.mu.Unlock()
	for _, e := range es {
		e.tell()
	}
	return len(es)
}

func (l *lane) waits() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.waiting)
}

// land ends a call, and returns another one if somebody waits.
func (l *lane) land(f *flight) (next *flight) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.air, f); i >= 0 {
		l.air = slices.Delete(l.air, i, i+1)
	}
	if f.args != nil {
		l.spare = append(l.spare, f.args)
	}
	if len(l.waiting) == 0 || !l.free(now) {
		return nil
	}
	return l.take(now)
}

// launch begins a call on a goroutine of the crew's.
func (l *lane) launch(f *flight) {
	err := l.node.store.crew.run(func() {
		l.fly(f)
		l.goOn(f)
	})
	for err != nil && f != nil { // closed: nobody flies any more
		for _, e := range f.es {
			e.err = err
		}
		f = l.arrive(f)
	}
}

// goOn tells those of a flight how it ended, and flies on for as long as somebody waits.
func (l *lane) goOn(f *flight) {
	for f = l.arrive(f); f != nil; f = l.arrive(f) {
		l.fly(f)
	}
}

// arrive tells those of the flight and lands. Callers who travelled together will come back together: it gives them the time to, else the first of them would leave alone,
// and the others would wait for it.
func (l *lane) arrive(f *flight) (next *flight) {
	n := l.unload(f)
	for range laneYields {
		if n <= 1 || l.waits() >= n {
			break
		}
		runtime.Gosched()
	}
	return l.land(f)
}

// fly makes the call.
func (l *lane) fly(f *flight) {
	if len(f.es) == 1 {
		l.carry(f, f.es, f.es[0].args[:])
		return
	}
	f.args = l.carry(f, f.es, f.args)
	if f.es[0].err != nil { // as for entries: they may still be read
		f.args = nil
	}
}

// await waits for the outcome of e until ctx ends. A bound of ctx is for the lane's timer.
func (l *lane) await(ctx context.Context, ends bound.Ends, e *entry) error {
	var why error
	select {
	case <-e.done:
		return e.left
	case <-ends.Parent:
		why = ctx.Err()
	case <-ends.Life:
		why = context.Canceled
	}
	if !e.leave(why) {
		<-e.done
		return e.left
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !e.sent {
		e.left = unsentError{why}
	}
	return e.left
}
