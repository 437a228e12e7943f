package redisstore

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/picket-go/picket/internal/bound"
)

const (
	laneClaims  = 64                    // in one call: the server does nothing else meanwhile, for a fraction of a millisecond
	laneBytes   = 64 << 10              // of one call, as names may be long
	laneFlying  = 2                     // calls under way
	laneOverdue = 50 * time.Millisecond // a call that takes longer no longer counts as under way: a connection that is stuck must not stop the others
)

// lane is the way of one kind of claims to the server. While calls are under way, claims that arrive gather, and leave together in one call (DESIGN 4.2). A claim that
// finds the lane free leaves alone and at once.
type lane struct {
	store  *Store
	script *script
	carry  func(context.Context, request, []*entry) // sends them and gives each its outcome
	limit  time.Duration                            // of one call
	claims int                                      // in one call
	flying int                                      // calls under way, not counting those overdue
	most   int                                      // counting them
	timers sync.Pool

	mu      sync.Mutex
	air     []time.Time // when the calls under way began
	waiting []*entry
	looks   bool // a look is due
	timer   *time.Timer
}

// entry is one claim's part of a call.
type entry struct {
	subject
	words  []string // its keys and arguments
	size   int      // of the words, in bytes
	alone  [1]*entry
	done   chan signal // nil if the claim travels on its caller's goroutine
	sent   bool        // sent and gone are guarded by the lane's mu
	gone   bool        // the caller has left
	answer answer
	err    error
}

// ask sends e and returns its answer. It returns soon after ctx ends, whatever the network does.
func (l *lane) ask(ctx context.Context, e *entry) (answer, error) {
	err := ctx.Err()
	switch {
	case err != nil:
		err = unsentError{err}
	case l.store.crew.over.Load():
		err = errClosed
	default:
		err = l.travel(ctx, e)
	}
	if err != nil {
		return answer{}, l.store.failed(ctx, e.subject, err)
	}
	return e.answer, e.answer.failure(e.subject)
}

func (l *lane) travel(ctx context.Context, e *entry) error {
	e.alone[0] = e
	direct := l.store.obeys(ctx)
	began, ok := l.board(e, direct)
	switch {
	case !ok:
		return l.await(ctx, e)
	case direct:
		call, stop := straight(ctx, l.limit)
		l.fly(call, e.alone[:])
		stop()
		if next, began := l.land(began); next != nil {
			l.launch(next, began)
		}
		return e.err
	}
	call := bound.Detached(ctx, untilDeadline(ctx, l.limit))
	err := l.store.crew.run(func() {
		l.fly(call, e.alone[:])
		call.Stop()
		l.goOn(began)
	})
	if err != nil {
		l.land(began)
		return err
	}
	return l.await(ctx, e)
}

// board reports whether e may leave at once; else it waits for company.
func (l *lane) board(e *entry, direct bool) (began time.Time, ok bool) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.free(now) {
		l.air = append(l.air, now)
		e.sent = true
		if !direct {
			e.done = make(chan signal, 1)
		}
		return now, true
	}
	e.done = make(chan signal, 1)
	l.waiting = append(l.waiting, e)
	if !l.looks {
		l.look()
	}
	return time.Time{}, false
}

// free reports whether another call may begin. mu is held, as it is for look and take.
func (l *lane) free(now time.Time) bool {
	if len(l.air) < l.flying {
		return true
	}
	if len(l.air) >= l.most {
		return false
	}
	fresh := 0
	for _, began := range l.air {
		if now.Sub(began) < laneOverdue {
			fresh++
		}
	}
	return fresh < l.flying
}

// look makes overdue run after a while.
func (l *lane) look() {
	l.looks = true
	if l.timer == nil {
		l.timer = time.AfterFunc(laneOverdue, l.overdue)
		return
	}
	l.timer.Reset(laneOverdue)
}

// overdue sends those that wait if the calls that they wait for are stuck.
func (l *lane) overdue() {
	now := time.Now()
	l.mu.Lock()
	l.looks = false
	var es []*entry
	if l.free(now) {
		es = l.take()
	}
	if es != nil {
		l.air = append(l.air, now)
	}
	if len(l.waiting) > 0 {
		l.look()
	}
	l.mu.Unlock()
	if es != nil {
		l.launch(es, now)
	}
}

// take removes from those that wait as many as may go in one call.
func (l *lane) take() (es []*entry) {
	size, n := 0, 0
	for _, e := range l.waiting {
		if len(es) == l.claims || len(es) > 0 && size+e.size > laneBytes {
			break
		}
		n++
		if e.gone {
			continue
		}
		e.sent = true
		size += e.size
		if es == nil {
			es = make([]*entry, 0, min(l.claims, len(l.waiting)))
		}
		es = append(es, e)
	}
	clear(l.waiting[:n])
	l.waiting = l.waiting[n:]
	if len(l.waiting) == 0 {
		l.waiting = nil
	}
	return es
}

// land ends a call that began then, and begins another if somebody waits.
func (l *lane) land(began time.Time) (next []*entry, at time.Time) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.air, began); i >= 0 {
		l.air = slices.Delete(l.air, i, i+1)
	}
	if len(l.waiting) == 0 || !l.free(now) {
		return nil, now
	}
	if next = l.take(); next != nil {
		l.air = append(l.air, now)
	}
	return next, now
}

// launch begins a call for es on a goroutine of the crew's.
func (l *lane) launch(es []*entry, began time.Time) {
	err := l.store.crew.run(func() {
		l.flyOwn(es)
		l.goOn(began)
	})
	for err != nil && es != nil { // closed: nobody flies any more
		for _, e := range es {
			e.err = err
			e.done <- signal{}
		}
		es, began = l.land(began)
	}
}

// goOn flies for as long as somebody waits.
func (l *lane) goOn(began time.Time) {
	for {
		var es []*entry
		if es, began = l.land(began); es == nil {
			return
		}
		l.flyOwn(es)
	}
}

// flyOwn is fly for claims that travel together: none of their contexts may end the call.
func (l *lane) flyOwn(es []*entry) {
	call := bound.New(bound.None(), l.limit)
	defer call.Stop()
	l.fly(call, es)
}

// fly sends es in one call and tells those that wait.
func (l *lane) fly(ctx context.Context, es []*entry) {
	first := es[0]
	r := request{subject: first.subject, script: l.script, keys: len(es) * len(suffixes), claims: len(es)}
	r.args = make([]any, places, places+len(es)*len(first.words))
	for _, e := range es {
		for i := range suffixes {
			r.args = append(r.args, &e.words[i])
		}
	}
	for _, e := range es {
		for i := len(suffixes); i < len(e.words); i++ {
			r.args = append(r.args, &e.words[i])
		}
	}
	l.carry(ctx, r, es)
	for _, e := range es {
		if e.done != nil {
			e.done <- signal{}
		}
	}
}

// await waits for the outcome of e until ctx ends.
func (l *lane) await(ctx context.Context, e *entry) error {
	var left error
	if d, ok := ctx.Deadline(); ok && l.store.obeys(ctx) {
		left = l.awaitUntil(e.done, d) // a timer of ours costs less than ctx.Done
	} else {
		select {
		case <-e.done:
		case <-ctx.Done():
			left = ctx.Err()
		}
	}
	if left == nil {
		return e.err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	e.gone = true
	if !e.sent {
		return unsentError{left}
	}
	return left
}

func (l *lane) awaitUntil(done <-chan signal, d time.Time) error {
	t, ok := l.timers.Get().(*time.Timer)
	if ok {
		t.Reset(time.Until(d))
	} else {
		t = time.NewTimer(time.Until(d))
	}
	defer l.timers.Put(t)
	defer t.Stop()
	select {
	case <-done:
		return nil
	case <-t.C:
		return context.DeadlineExceeded
	}
}
