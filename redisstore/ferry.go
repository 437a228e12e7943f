package redisstore

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/picket-go/picket"
)

// ferryPause is between two looks at a lock that is neither on one side nor on the other.
const ferryPause = 25 * time.Millisecond

// errSplit says that nothing can be done for a lock before all its keys have been moved.
var errSplit error = &serverError{sentinel: picket.ErrUnavailable, advice: "the slot is being moved, and the lock with it: try again (TRYAGAIN)", unsent: true}

// ferry brings a call about one lock across while the lock's slot is being moved from one node to another. The keys of a slot move one after the other, and a call that names
// some that are on one side and some that are not is refused (TRYAGAIN), as is, on the new side, one that names a key which does not exist. So the ferry looks where the keys are:
//
//   - With no key left on the old side, none can come to be there any more: the new side may do everything. The script names the record only, and finds the rest by itself.
//   - Else the lock is still on the old side, or on both. Then a holder renews, and gives back; a waiter keeps its place; nobody is let in, as a key that is made on one side may
//     exist on the other.
type ferry struct {
	from *node
	r    request // with all keys
	e    *entry  // nil, or the claim that r is for
}

func newFerry(from *node, r request) *ferry { return &ferry{from: from, r: r} }

// ferried is ask by ferry.
func (s *Store) ferried(ctx context.Context, from *node, e *entry) (answer, error) {
	es := []*entry{e}
	f := newFerry(from, claimRequest(es, arguments(es, e.args[:])))
	f.e = e
	about := e.subject
	raw, err := send(ctx, s, s.patience(), f.bring)
	if err != nil {
		return answer{}, err
	}
	all, err := answers(request{subject: about, claims: 1}, raw)
	if err != nil {
		return answer{}, err
	}
	return all[0], all[0].failure(about)
}

// bring tries until the call is done, the slot has been moved, which is a hop, or ctx is about to end.
func (f *ferry) bring(ctx context.Context) ([]any, error) {
	for {
		raw, err := f.cross(ctx)
		if !errors.Is(err, errSplit) {
			return raw, err
		}
		if d, ok := ctx.Deadline(); ok && time.Until(d) < 2*ferryPause {
			return nil, err
		}
		select {
		case <-time.After(ferryPause):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// cross is one attempt.
func (f *ferry) cross(ctx context.Context) ([]any, error) {
	here, there, err := f.look(ctx)
	if err != nil {
		return nil, err
	}
	if there == nil { // not moving any more
		return nil, &hop{moved: true, addr: f.from.addr()}
	}
	to, err := f.from.store.atlas.next(ctx, f.from, there, f.r.record())
	if err != nil {
		return nil, err
	}
	if here == 0 {
		return f.land(ctx, to)
	}
	return f.wait(ctx, to)
}

// look counts the keys on the old side, and learns where the others would be.
func (f *ferry) look(ctx context.Context) (here int, there *hop, err error) {
	p := f.from.single.Pipeline()
	var cmds []*redis.Cmd
	for _, key := range f.r.args[places : places+f.r.keys] {
		cmd := redis.NewCmd(ctx, "exists", key)
		cmds = append(cmds, cmd)
		_ = p.Process(ctx, once{cmd}) // only Exec sends
	}
	_, _ = p.Exec(ctx) // each command has its own error
	for _, cmd := range cmds {
		err := f.from.heed(ctx, cmd.Err())
		h, redirected := errors.AsType[*hop](err)
		switch {
		case err == nil:
			if n, _ := cmd.Int(); n > 0 {
				here++
			}
		case !redirected || h.moved:
			return 0, nil, unroutedError{err}
		case h.addr != "":
			there = h
		}
	}
	return here, there, nil
}

// land does all that is asked for on the new side.
func (f *ferry) land(ctx context.Context, to *node) ([]any, error) {
	r := f.r
	r.script, r.keys = f.r.script.moving, 1
	r.args = append(make([]any, places, len(f.r.args)), f.r.args[places])
	r.args = append(r.args, f.r.args[places+f.r.keys:]...)
	raw, err := f.side(ctx, to, r, true)
	if _, ok := errors.AsType[*hop](err); ok {
		return nil, errSplit // it has just changed
	}
	return raw, err
}

// side runs r on one side. A grant counts only if the replicas of that side have it.
func (f *ferry) side(ctx context.Context, n *node, r request, asking bool) ([]any, error) {
	conn := n.patient.Conn()
	defer conn.Close() //nolint:errcheck // gives it back to the pool
	o := n.deliver(ctx, conn, []request{r}, asking)[0]
	raw, err := o.raw, o.err
	if err == nil && r.script == f.r.script.moving {
		raw, err = f.unwrap(ctx, raw)
	}
	if err != nil || f.e == nil || !n.store.durable() {
		return raw, err
	}
	es := []*entry{f.e}
	share(es, raw, nil)
	n.secure(ctx, conn, es)
	return raw, f.e.err
}

// unwrap takes the answers of a moving script, and publishes what it left unsaid.
func (f *ferry) unwrap(ctx context.Context, raw []any) ([]any, error) {
	if len(raw) != 2 {
		return nil, f.r.garbled(raw)
	}
	answers, _ := raw[0].([]any)
	unsaid, _ := raw[1].([]any)
	f.tell(ctx, unsaid)
	return answers, nil
}

// tell publishes on the old side, where the waiters listen until the slot has been moved. Who does not hear of it polls.
func (f *ferry) tell(ctx context.Context, unsaid []any) {
	if len(unsaid) == 0 {
		return
	}
	p := f.from.single.Pipeline()
	for _, x := range unsaid {
		if args, ok := x.([]any); ok {
			_ = p.Process(ctx, once{redis.NewCmd(ctx, args...)}) // only Exec sends
		}
	}
	_, _ = p.Exec(ctx)
}

// wait does on each of the two sides what can be done there.
func (f *ferry) wait(ctx context.Context, to *node) ([]any, error) {
	r := f.r
	r.script, r.keys = splitScript, 0
	r.args = append(make([]any, places, len(f.r.args)), f.r.args[places])
	switch {
	case f.e != nil:
		r.args = append(r.args, f.r.args[places+f.r.keys:]...)
	case f.r.script == inspectScript:
		r.args = append(r.args, "", "?")
	default:
		return nil, errSplit
	}
	a, raw, err := f.half(ctx, f.from, r, false)
	if raw != nil || err != nil {
		return raw, err
	}
	b, raw, err := f.half(ctx, to, r, true)
	if raw != nil || err != nil {
		return raw, err
	}
	return join(a, b)
}

// half does what can be done on one side. If that is the whole, its answer is raw, and not nil.
func (f *ferry) half(ctx context.Context, n *node, r request, asking bool) (a answer, raw []any, err error) {
	raw, err = f.side(ctx, n, r, asking)
	if err != nil {
		return answer{}, nil, err
	}
	if len(raw) != 1 {
		return answer{}, nil, r.garbled(raw)
	}
	a, err = r.read(raw, 0)
	switch a.word {
	case "busy", "lock", "elsewhere":
		return a, nil, err
	}
	return a, raw, err
}

// join makes one answer of two halves: the record is on one side, the queue on one.
func join(a, b answer) ([]any, error) {
	if a.word == "elsewhere" || b.word == "elsewhere" {
		return nil, errSplit
	}
	if a.text(0) == "" {
		a, b = b, a
	}
	if a.word == "lock" {
		return []any{[]any{"lock", a.text(0), a.number(1), max(a.number(2), b.number(2)), max(a.number(3), b.number(3))}}, nil
	}
	if a.text(0) == "" && a.number(3) == 0 { // free, but not for now
		return nil, errSplit
	}
	return []any{[]any{"busy", a.text(0), a.number(1), max(a.number(2), b.number(2))}}, nil
}
