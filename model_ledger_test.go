package picket_test

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/picket-go/picket"
)

// facts is what an observer who sees the wire, the server and the clients knows of one claim.
type facts struct {
	from     *process
	floor    int64 // the highest token of the key that was told when the claim was first sent
	token    int64 // of its last grant at the server; 0 never
	cleanups int   // releases by its id that were sent
	cleaned  bool  // one of them took effect
	worked   bool  // one of them, or a transfer, ended its record or place
	heard    bool  // its Locker heard of a grant
	told     *picket.Lease
	over     bool // it was told, and has ended for its client
	again    bool // it was granted anew after that

	claim   picket.Claim // as it was last sent
	swapped bool         // it was sent in a transfer past those who wait in the store
	turn    localTurn
}

// told is a lease whose holder may work.
type told struct {
	lease *picket.Lease
	id    string
	who   string
}

// ledger sees all that happens at the server and all that clients are told. The server does each request under its mutex, so that nothing comes between an effect and
// its entry.
type ledger struct {
	*journal
	host host

	mu      sync.Mutex
	queues  map[string]*waiting // by key
	claims  map[string]*facts
	holders map[string][]*told // by key
	asking  map[asker]*askers  // calls that wait for a key
	highest map[string]int64   // told, by key
	minted  map[string]int64   // by the server, by key
	tokens  map[int64]string   // told, by token, of all keys of a run: the claim
	count   tally
}

// tally says that the model was not idle.
type tally struct {
	runs, told, lost, late, twice, again, refused, undelivered, handed, swapped, lapsed, deaf, killed int
}

func (t *tally) add(o tally) {
	t.runs += o.runs
	t.told += o.told
	t.lost += o.lost
	t.late += o.late
	t.twice += o.twice
	t.again += o.again
	t.refused += o.refused
	t.undelivered += o.undelivered
	t.handed += o.handed
	t.swapped += o.swapped
	t.lapsed += o.lapsed
	t.deaf += o.deaf
	t.killed += o.killed
}

func newLedger(j *journal) *ledger {
	return &ledger{
		journal: j, claims: map[string]*facts{}, queues: map[string]*waiting{}, holders: map[string][]*told{}, asking: map[asker]*askers{},
		highest: map[string]int64{}, minted: map[string]int64{}, tokens: map[int64]string{},
	}
}

// sends notes that a request for the claim leaves p.
func (g *ledger) sends(p *process, c picket.Claim, cleanup bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f := g.claims[c.ID]
	if f == nil {
		f = &facts{from: p, floor: g.highest[c.Key]}
		g.claims[c.ID] = f
	}
	f.claim = c
	if cleanup {
		f.cleanups++
	}
}

// effect is what the server did for one claim.
type effect struct {
	op     string // acquire, release, transfer, renew
	key    string
	id     string // whose request it was
	from   string // the claim that a transfer released
	queued bool   // id has a place in the queue now
	names  string // who has the key, by a busy answer
	answer
}

// at lets do take effect on keys at the server, and looks at what it has done.
func (g *ledger) at(keys []string, do func() []effect) {
	g.mu.Lock()
	defer g.mu.Unlock()
	before, deaf := map[string]picket.Status{}, map[string]map[string]bool{}
	for _, key := range keys {
		before[key], deaf[key] = g.status(key), g.host.deaf(key)
	}
	for _, e := range do() {
		g.enter(e, before[e.key], deaf[e.key])
	}
	for _, key := range keys {
		g.audit(key)
	}
}

// enter looks at what the server did in e. The mutex is held, here and below.
func (g *ledger) enter(e effect, before picket.Status, deaf map[string]bool) {
	g.log("  server: %s", g.show(e))
	g.note(e)
	after := g.status(e.key)
	if granted(before, after) {
		g.granted(e.key, after)
	}
	if f := g.claims[after.Holder.ID]; f != nil && f.cleaned {
		g.violation(ghost, "%s has %q at the server after its own clean-up took effect", g.name(after.Holder.ID), e.key)
	}
	g.owns(e, before)
	if errors.Is(e.err, picket.ErrBusy) && e.names != after.Holder.ID {
		g.violation(wrongName, "%s is told that %s has %q, but %s has", g.name(e.id), g.name(e.names), e.key, g.name(after.Holder.ID))
	}
	g.judge(e, before, after, deafness{deaf, g.host.deaf(e.key)})
}

// owns checks that a claim for which something was done held the key, or waited if that is enough.
func (g *ledger) owns(e effect, before picket.Status) {
	id, err := e.id, e.err
	switch e.op {
	case "release":
		if g.waits(e.key, id) {
			return
		}
	case "renew":
		if err == nil && before.State != picket.StatusHeld {
			g.violation(notItsOwn, "%q was %s when %s was renewed", e.key, before.State, g.name(id))
		}
	case "transfer":
		if id = e.from; errors.Is(err, picket.ErrBusy) {
			err = nil
		}
	default:
		return
	}
	if err == nil && before.Holder.ID != id {
		g.violation(notItsOwn, "%s of %s on %q was done, but %s had it", e.op, g.name(id), e.key, g.name(before.Holder.ID))
	}
}

func granted(before, after picket.Status) bool {
	return after.State == picket.StatusHeld && (after.Token != before.Token || after.Holder.ID != before.Holder.ID)
}

func (g *ledger) show(e effect) string {
	what := e.op + " " + g.name(e.id)
	if e.from != "" {
		what = e.op + " " + g.name(e.from) + " to " + g.name(e.id)
	}
	if e.err == nil && e.grant.Token != 0 {
		return fmt.Sprintf("%s -> token %d", what, e.grant.Token)
	}
	return fmt.Sprintf("%s (queued %t) -> %v", what, e.queued, e.err)
}

// note enters what the effect means for its claims.
func (g *ledger) note(e effect) {
	switch e.op {
	case "release":
		g.cleaned(e.id, e.err)
	case "transfer":
		switch {
		case e.err == nil, errors.Is(e.err, picket.ErrBusy):
			g.count.swapped++
			g.cleaned(e.from, nil)
		case errors.Is(e.err, picket.ErrLost) && !g.waits(e.key, e.from): // of one that waits a late request had come, and another may: only its place has ended
			g.cleaned(e.from, e.err)
		}
	}
	switch {
	case errors.Is(e.err, picket.ErrRefused):
		g.count.refused++
	case e.queued && g.claims[e.id].cleaned:
		g.violation(ghost, "%s has a place in the queue of %q after its own clean-up took effect", g.name(e.id), e.key)
	}
}

func (g *ledger) status(key string) picket.Status { return g.host.status(key) }

// granted is a new grant at the server.
func (g *ledger) granted(key string, now picket.Status) {
	f := g.claims[now.Holder.ID]
	if f == nil {
		g.violation(ghost, "%q is granted to a claim that nobody sent", key)
		return
	}
	if next := max(g.minted[key]+1, g.host.now().UnixMicro()); now.Token != next {
		g.violation(tokenOrder, "the server granted %q with token %d after %d, want %d", key, now.Token, g.minted[key], next)
	}
	g.minted[key] = now.Token
	if now.Remaining < now.TTL {
		g.count.handed++
	}
	if f.token != 0 {
		g.count.again++
	}
	f.token = now.Token
	f.again = f.over
	g.log("          server: %q is %s's now, token %d, for %s", key, g.name(now.Holder.ID), now.Token, now.Remaining)
}

// hears notes that the Locker hears the server's answer to the claim, and hands it on.
func (g *ledger) hears(c picket.Claim, a answer, err error) (picket.Grant, error) {
	if err != nil {
		return picket.Grant{}, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	f := g.claims[c.ID]
	f.heard = f.heard || a.err == nil
	f.turn = g.askers(f.from, c.Key).begins()
	return a.grant, a.err
}

// cleaned notes that a release by id took effect.
func (g *ledger) cleaned(id string, err error) {
	f := g.claims[id]
	f.cleaned = true
	f.worked = f.worked || err == nil
}

// tells enters that who is told of the lease; the returned entry is to be closed by leaves.
func (g *ledger) tells(who string, l *picket.Lease) *told {
	h := &told{lease: l, id: l.Holder().ID, who: who}
	g.mu.Lock()
	defer g.mu.Unlock()
	key := l.Key()
	g.log("%s TOLD of %s on %q, token %d, for %s", who, g.name(h.id), key, l.Token(), l.Remaining())
	g.count.told++
	if err := l.Check(); err != nil && !errors.Is(err, picket.ErrClosed) {
		g.violation(lateGrant, "%s is told of a lease on %q (%s) that is over: %v", who, key, g.name(h.id), err)
	}
	g.audit(key)
	if l.Check() == nil {
		for _, o := range g.holders[key] {
			g.violation(twoTold, "%s (%s, token %d) and %s (%s, token %d, for %s more) both hold %q",
				who, g.name(h.id), l.Token(), o.who, g.name(o.id), o.lease.Token(), o.lease.Remaining(), key)
		}
	}
	f := g.claims[h.id]
	if f == nil {
		g.violation(ghost, "%s is told of a claim that was never sent", who)
		return h
	}
	f.told = l
	if l.Token() <= f.floor {
		g.violation(tokenOrder, "%s is told token %d of %q, but %d was told before its claim was first sent", who, l.Token(), key, f.floor)
	}
	if other := g.tokens[l.Token()]; other != "" && other[:len(key)] == key {
		g.violation(tokenOrder, "token %d of %q is told to %s and to %s", l.Token(), key, other, h.id)
	}
	g.tokens[l.Token()] = key + " " + h.id
	g.highest[key] = max(g.highest[key], l.Token())
	g.holders[key] = append(g.holders[key], h)
	g.audit(key)
	return h
}

// audit compares what the holders of key believe with the server's record, and forgets those whose lease is over.
func (g *ledger) audit(key string) {
	var rest []*told
	for _, h := range g.holders[key] {
		err := h.lease.Check()
		if over := closed(h.lease.Done()); over != (err != nil) {
			g.violation(badContext, "Check of %s on %q says %v, Done is closed: %t", g.name(h.id), key, err, over)
		}
		if err != nil {
			g.ended(h, err)
			continue
		}
		left, st := h.lease.Remaining(), g.status(key)
		if st.State != picket.StatusHeld || st.Holder.ID != h.id || st.Remaining < left || st.Token != h.lease.Token() {
			g.violation(unfounded, "%s believes in %s on %q with token %d for %s; the server says %s by %s with token %d for %s",
				h.who, g.name(h.id), key, h.lease.Token(), left, st.State, g.name(st.Holder.ID), st.Token, st.Remaining)
		}
		rest = append(rest, h)
	}
	g.holders[key] = rest
}

// ended is the end of a lease that was not released.
func (g *ledger) ended(h *told, err error) {
	g.log("%s: %s has ended: %v", h.who, g.name(h.id), err)
	g.count.lost++
	g.claims[h.id].over = true
	if lost, ok := errors.AsType[*picket.LostError](err); ok {
		switch lost.Reason {
		case picket.ReasonExpired, picket.ReasonUnreachable, picket.ReasonMaxHold:
		default:
			g.violation(falseLoss, "%s was told that %s is lost because of %q, the store has lost nothing", h.who, g.name(h.id), lost.Reason)
		}
	}
}

// auditAll looks at every key, and says how many leases are held.
func (g *ledger) auditAll() (held int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for key := range g.holders {
		g.audit(key)
		held += len(g.holders[key])
	}
	return held
}

// leave is what is true of a lease right before its release.
type leave struct {
	*told
	good bool
	end  time.Time // it is good until then
}

// leaves enters that the holder stops working and will release next.
func (g *ledger) leaves(h *told) leave {
	g.mu.Lock()
	defer g.mu.Unlock()
	key := h.lease.Key()
	g.audit(key)
	out := leave{h, h.lease.Check() == nil, time.Now().Add(h.lease.Remaining())}
	for i, o := range g.holders[key] {
		if o == h {
			g.holders[key] = append(g.holders[key][:i:i], g.holders[key][i+1:]...)
		}
	}
	g.claims[h.id].over = true
	g.log("%s leaves %s, good %t", h.who, g.name(h.id), out.good)
	return out
}

// left checks what a release returned.
func (g *ledger) left(out leave, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.log("%s has left %s: %v", out.who, g.name(out.id), err)
	switch {
	case errors.Is(err, picket.ErrRefused), errors.Is(err, picket.ErrInvalid), errors.Is(err, picket.ErrUnsupported):
		g.violation(refusal, "the release of %s says %v", g.name(out.id), err)
	case !out.good:
	case errors.Is(err, picket.ErrLost) && time.Now().Before(out.end):
		g.violation(falseLoss, "the release of %s says %q %s before its end; at the server it worked: %t",
			g.name(out.id), err, time.Until(out.end), g.claims[out.id].worked)
	case err == nil && !g.claims[out.id].worked:
		g.violation(falseRelease, "the release of %s returned nil, but none has taken effect", g.name(out.id))
	}
}

// leastCleanups is how often the undo of a claim is sent, at the least, while no answer comes. A release has as long as its lease, and that may be enough for one.
const leastCleanups = 3

// orphans looks, when all is quiet, for claims that nobody has cleaned up.
func (g *ledger) orphans() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for id, f := range g.claims {
		switch {
		case f.from.aborted.Load(): // Shutdown lost patience: what is left ends with its TTL
		case f.token != 0 && f.told == nil && f.cleanups == 0:
			g.violation(orphan, "%s was granted token %d, nobody was told, and no clean-up was sent", g.name(id), f.token)
		case f.again && f.cleanups == 0:
			g.violation(orphan, "%s was granted token %d after it was over for its holder, and no clean-up was sent", g.name(id), f.token)
		case f.cleanups > 0 && !f.cleaned:
			g.count.undelivered++
			if !f.heard && f.cleanups < leastCleanups {
				g.violation(orphan, "the clean-up of %s was given up after %d attempts, none of which arrived", g.name(id), f.cleanups)
			}
		}
	}
}

// unfinished looks, when all is over, for leases whose end no observer was told of.
func (g *ledger) unfinished(s *states) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for id, f := range g.claims {
		if f.told == nil || f.from.aborted.Load() {
			continue
		}
		if state := s.of(f.told); state < picket.StateLost {
			g.violation(badState, "all is over, but observers know %s as %s", g.name(id), state)
		}
	}
}

// remains reports why key may still be taken when all is quiet, "" if it must not.
func (g *ledger) remains(st picket.Status) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	f := g.claims[st.Holder.ID]
	switch {
	case st.State == picket.StatusCooling:
		return "it cools down"
	case f == nil:
		return ""
	case f.from.aborted.Load():
		return "its Locker was shut down"
	case f.told != nil && f.cleanups == 0:
		return "its holder has lost it and did not release"
	case !f.cleaned:
		return "no clean-up was delivered"
	}
	return ""
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
