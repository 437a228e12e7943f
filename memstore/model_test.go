package memstore_test

import (
	"fmt"
	"time"

	"github.com/picket-go/picket"
)

// model is one key as a person would keep it on paper: a record, an unordered list of those who wait, and no clock but "now". It foresees each answer of the store.
type model struct {
	now     time.Duration
	rec     *paper
	waiting []*place
	burnt   map[string]time.Duration
	told    map[string]picket.Reason // what Lose and Break said
	listens map[string]bool
	arrived int
	grants  int // new tokens
}

type paper struct {
	claim         picket.Claim
	granted       time.Duration
	ends, free    time.Duration
	kept, broken  bool
	offered       *place // a hand-off without an answer yet
	grant         int
	holderVisible string
}

type place struct {
	claim         picket.Claim
	no            int
	seen          time.Duration
	heard, passed bool
	mute          bool // since its hand-off lapsed
}

func newModel() *model {
	return &model{burnt: map[string]time.Duration{}, told: map[string]picket.Reason{}, listens: map[string]bool{}}
}

func (m *model) alive(p *place) bool {
	if p.claim.Recheck == 0 {
		return m.now <= p.seen+10*time.Second
	}
	return m.now <= p.seen+3*p.claim.Recheck+time.Second
}

// tick lets time end what it ends.
func (m *model) tick() {
	if m.rec == nil || m.now < m.rec.free {
		return
	}
	if p := m.rec.offered; p != nil {
		p.passed, p.mute = true, true
		m.waiting = append(m.waiting, p)
	}
	m.rec = nil
}

func (m *model) remove(id string) (found bool) {
	var rest []*place
	for _, p := range m.waiting {
		if p.claim.ID == id {
			found = true
		} else {
			rest = append(rest, p)
		}
	}
	m.waiting = rest
	return found
}

// before counts those alive who came before number no.
func (m *model) before(no int) (n int) {
	for _, p := range m.waiting {
		if p.no < no && m.alive(p) {
			n++
		}
	}
	return n
}

const everybody = 1 << 40

func (m *model) mine(id string) bool {
	return m.rec != nil && !m.rec.kept && m.rec.claim.ID == id
}

func (m *model) working(id string) bool {
	return m.mine(id) && !m.rec.broken && m.now < m.rec.ends
}

// write makes a new record: a new token.
func (m *model) write(c picket.Claim) {
	m.grants++
	m.rec = &paper{claim: c, granted: m.now, grant: m.grants, holderVisible: c.ID}
}

func (m *model) lengthen(ttl time.Duration) {
	m.rec.claim.TTL = ttl
	m.rec.ends = max(m.rec.ends, m.now+ttl)
	m.rec.free = max(m.rec.free, m.rec.ends+m.rec.claim.LockDelay)
}

func (m *model) served() {
	if m.rec.offered != nil {
		m.rec.offered = nil
		m.rec.granted = m.now
	}
	for _, p := range m.waiting {
		p.passed = false
	}
}

// serve gives a free key to who is due; the asker can be reached, as it asks.
func (m *model) serve(asker string) {
	if m.rec != nil {
		return
	}
	for _, wantPassed := range []bool{false, true} {
		var first *place
		for _, p := range m.waiting {
			hungUp := p.heard && !m.listens[p.claim.ID] && p.claim.ID != asker
			if m.alive(p) && !hungUp && !p.mute && p.passed == wantPassed && (first == nil || p.no < first.no) {
				first = p
			}
		}
		if first == nil {
			continue
		}
		if wantPassed { // all were passed over: a new round
			for _, p := range m.waiting {
				p.passed = false
			}
		}
		m.remove(first.claim.ID)
		m.write(first.claim)
		if first.claim.ID == asker {
			m.lengthen(first.claim.TTL)
			m.served()
			return
		}
		m.rec.offered = first
		m.rec.ends = m.now + min(first.claim.TTL, time.Second)
		m.rec.free = m.rec.ends
		return
	}
}

func (m *model) acquire(c picket.Claim) string {
	m.tick()
	if m.now < m.burnt[c.ID] {
		return "refused"
	}
	if m.working(c.ID) {
		ttl := c.TTL
		c.TTL = m.rec.claim.TTL
		m.rec.claim = c
		m.lengthen(ttl)
		m.served()
		return m.granted()
	}
	no := everybody
	var at *place
	for _, p := range m.waiting {
		if p.claim.ID == c.ID {
			at = p
		}
	}
	switch {
	case !c.Queue:
		m.remove(c.ID)
	case at != nil:
		at.claim, at.seen, at.heard, at.mute = c, m.now, m.listens[c.ID], false
		no = at.no
	default:
		var living []*place
		for _, p := range m.waiting {
			if m.alive(p) {
				living = append(living, p)
			}
		}
		m.arrived++
		no = m.arrived
		m.waiting = append(living, &place{claim: c, no: no, seen: m.now, heard: m.listens[c.ID]})
	}
	m.dropDead()
	m.serve(c.ID)
	if m.rec == nil {
		m.write(c)
		m.lengthen(c.TTL)
		m.served()
	}
	if m.working(c.ID) {
		return m.granted()
	}
	return fmt.Sprintf("busy by %q for %s, %d before", m.visible(), m.rec.free-m.now, m.before(no))
}

// dropDead forgets the dead when the key is free; while it is held they may come back.
func (m *model) dropDead() {
	if m.rec != nil {
		return
	}
	for _, p := range append([]*place(nil), m.waiting...) {
		if !m.alive(p) {
			m.remove(p.claim.ID)
		}
	}
}

func (m *model) granted() string { return fmt.Sprintf("granted, %d wait", m.before(everybody)) }

func (m *model) visible() string {
	if m.rec.kept {
		return ""
	}
	return m.rec.claim.ID
}

// finish is what a release does to its own record.
func (m *model) finish(c picket.Claim) {
	if m.rec.offered == nil && m.rec.granted+c.MinHold > m.now {
		m.rec.kept, m.rec.broken = true, false
		m.rec.ends = m.rec.granted + c.MinHold
		m.rec.free = m.rec.ends
		return
	}
	m.rec = nil
}

func (m *model) release(c picket.Claim) string {
	m.tick()
	if c.Doubt {
		m.burnt[c.ID] = m.now + 10*time.Minute
	}
	result := "ok"
	if waited := m.remove(c.ID); m.mine(c.ID) {
		m.finish(c)
	} else if !waited {
		result = m.lost(c)
	}
	m.dropDead()
	m.serve("")
	return result
}

func (m *model) lost(c picket.Claim) string {
	reason := m.told[c.ID]
	switch {
	case m.mine(c.ID) && m.rec.broken:
		reason = picket.ReasonBroken
	case m.mine(c.ID):
		reason = picket.ReasonExpired
	case reason == "" && m.rec != nil && !m.rec.kept:
		reason = picket.ReasonStolen
	}
	return fmt.Sprintf("lost, %q", reason)
}

func (m *model) renew(c picket.Claim) string {
	m.tick()
	if !m.working(c.ID) {
		return m.lost(c)
	}
	if m.rec.offered != nil {
		m.served()
		m.lengthen(m.rec.claim.TTL)
	}
	m.lengthen(c.TTL)
	return "ok"
}

func (m *model) transfer(from, to picket.Claim) string {
	m.tick()
	if m.now < m.burnt[to.ID] {
		return "refused"
	}
	if from.Doubt {
		m.burnt[from.ID] = m.now + 10*time.Minute
	}
	if !m.mine(from.ID) {
		m.remove(from.ID)
		return m.lost(from)
	}
	m.finish(from)
	if m.rec == nil && !to.Queue {
		m.remove(to.ID)
		m.write(to)
		m.lengthen(to.TTL)
		m.served()
	}
	return m.acquire(to)
}

func (m *model) lose(reason picket.Reason) {
	m.tick()
	if m.rec == nil {
		return
	}
	if !m.rec.kept {
		m.told[m.rec.claim.ID] = reason
	}
	m.rec.offered = nil
	if reason == picket.ReasonBroken {
		m.rec.broken = true
		return
	}
	m.rec = nil
	m.dropDead()
	m.serve("")
}

func (m *model) status() string {
	m.tick()
	waiters := m.before(everybody)
	if m.rec == nil {
		return fmt.Sprintf("free by %q for 0s, %d wait", "", waiters)
	}
	state, left := picket.StatusCooling, m.rec.free-m.now
	if m.working(m.rec.claim.ID) {
		state, left = picket.StatusHeld, m.rec.ends-m.now
	}
	return fmt.Sprintf("%s by %q for %s, %d wait", state, m.visible(), left, waiters)
}
