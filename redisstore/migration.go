package redisstore

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/picket-go/picket"
	"github.com/picket-go/picket/internal/bound"
)

// migrationPause is between two looks at a lock that is neither on one side nor on the other.
const migrationPause = 25 * time.Millisecond

// errSplit says that nothing can be done for a lock before all its keys have been moved.
var errSplit error = &serverError{sentinel: picket.ErrUnavailable, advice: "the slot is being moved, and the lock with it: try again (TRYAGAIN)", unsent: true}

// migration is a call about one lock whose slot is being moved from one node to another. The keys of a slot move one after the other, and a call that names
// some that are on one side and some that are not is refused (TRYAGAIN), as is, on the new side, one that names a key which does not exist. So it looks where the keys are:
//
//   - With no key left on the old side, none can come to be there any more: the new side may do everything. The script names the record only, and finds the rest by itself.
//   - Else the lock is still on the old side, or on both. Then a holder renews, and gives back; a waiter keeps its place; nobody is let in, as a key that is made on one side may
//     exist on the other.
type migration struct {
	from *node
	r    request // with all keys
	e    *entry  // nil, or the claim that r is for
}

// migrate is ask while the slot is being moved.
func (s *Store) migrate(ctx context.Context, from *node, e *entry) (answer, error) {
	es := []*entry{e}
	m := &migration{from: from, r: claimRequest(es, arguments(es, e.args[:])), e: e}
	about := e.subject
	call := bound.New(ctx, s.patience())
	defer call.Stop()
	raw, err := m.run(call, func(ctx context.Context) ([]any, error) { return send(ctx, s, s.patience(), m.try) })
	if err != nil {
		return answer{}, err
	}
	all, err := answers(request{subject: about, claims: 1}, raw)
	if err != nil {
		return answer{}, err
	}
	return all[0], all[0].failure(about)
}

// run tries until the call is done, the slot has been moved, which is a redirect, or ctx is about to end.
func (m *migration) run(ctx context.Context, try func(context.Context) ([]any, error)) ([]any, error) {
	for {
		raw, err := try(ctx)
		if !errors.Is(err, errSplit) {
			return raw, err
		}
		if d, ok := ctx.Deadline(); ok && time.Until(d) < 2*migrationPause {
			return nil, err
		}
		select {
		case <-time.After(migrationPause):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// try is one attempt.
func (m *migration) try(ctx context.Context) ([]any, error) {
	here, there, err := m.find(ctx)
	if err != nil {
		return nil, err
	}
	if there == nil { // not moving any more
		return nil, &redirect{moved: true, addr: m.from.addr()}
	}
	to, err := m.from.store.cluster.next(ctx, m.from, there, m.r.record())
	if err != nil {
		return nil, err
	}
	if here == 0 {
		return m.arrive(ctx, to)
	}
	return m.split(ctx, to)
}

// find counts the keys on the old side, and learns where the others would be.
func (m *migration) find(ctx context.Context) (here int, there *redirect, err error) {
	p := m.from.client.Pipeline()
	var cmds []*redis.Cmd
	for _, key := range m.r.args[places : places+m.r.keys] {
		cmd := redis.NewCmd(ctx, "exists", key)
		cmds = append(cmds, cmd)
		_ = p.Process(ctx, once{cmd}) // only Exec sends
	}
	_, _ = p.Exec(ctx) // each command has its own error
	for _, cmd := range cmds {
		err := m.from.heed(ctx, cmd.Err())
		h, redirected := errors.AsType[*redirect](err)
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

// arrive does all that is asked for on the new side.
func (m *migration) arrive(ctx context.Context, to *node) ([]any, error) {
	r := m.r
	r.script, r.keys = m.r.script.moving, 1
	r.args = append(make([]any, places, len(m.r.args)), m.r.args[places])
	r.args = append(r.args, m.r.args[places+m.r.keys:]...)
	raw, err := m.side(ctx, to, r, true)
	if _, ok := errors.AsType[*redirect](err); ok {
		return nil, errSplit // it has just changed
	}
	return raw, err
}

// side runs r on one side. A grant counts only if the replicas of that side have it.
func (m *migration) side(ctx context.Context, n *node, r request, asking bool) ([]any, error) {
	conn := n.patient.Conn()
	defer conn.Close() //nolint:errcheck // gives it back to the pool
	o := n.deliver(ctx, conn, []request{r}, asking)[0]
	raw, err := o.raw, o.err
	if err == nil && r.script == m.r.script.moving {
		raw, err = m.unwrap(ctx, raw)
	}
	if err != nil || m.e == nil || !n.store.durable() {
		return raw, err
	}
	es := []*entry{m.e}
	share(es, raw, nil)
	n.secure(ctx, conn, es)
	return raw, m.e.err
}

// unwrap takes the answers of a moving script, and publishes what it left unsaid.
func (m *migration) unwrap(ctx context.Context, raw []any) ([]any, error) {
	if len(raw) != 2 {
		return nil, m.r.garbled(raw)
	}
	answers, _ := raw[0].([]any)
	unsaid, _ := raw[1].([]any)
	m.publish(ctx, unsaid)
	return answers, nil
}

// publish publishes on the old side, where the waiters listen until the slot has been moved. Who does not hear of it polls.
func (m *migration) publish(ctx context.Context, unsaid []any) {
	if len(unsaid) == 0 {
		return
	}
	p := m.from.client.Pipeline()
	for _, x := range unsaid {
		if args, ok := x.([]any); ok {
			_ = p.Process(ctx, once{redis.NewCmd(ctx, args...)}) // only Exec sends
		}
	}
	_, _ = p.Exec(ctx)
}

// split does on each of the two sides what can be done there.
func (m *migration) split(ctx context.Context, to *node) ([]any, error) {
	r := m.r
	r.script, r.keys = splitScript, 0
	r.args = append(make([]any, places, len(m.r.args)), m.r.args[places])
	switch {
	case m.e != nil:
		r.args = append(r.args, m.r.args[places+m.r.keys:]...)
	case m.r.script == inspectScript:
		r.args = append(r.args, "", "?")
	default:
		return nil, errSplit
	}
	a, raw, err := m.half(ctx, m.from, r, false)
	if raw != nil || err != nil {
		return raw, err
	}
	b, raw, err := m.half(ctx, to, r, true)
	if raw != nil || err != nil {
		return raw, err
	}
	return join(a, b)
}

// half does what can be done on one side. If that is the whole, its answer is raw, and not nil.
func (m *migration) half(ctx context.Context, n *node, r request, asking bool) (a answer, raw []any, err error) {
	raw, err = m.side(ctx, n, r, asking)
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
