package memstore_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/picket-go/picket"
	"github.com/picket-go/picket/memstore"
)

// machine runs the store beside the model, and checks the promises that do not depend on the model.
type machine struct {
	*testing.T
	store    *memstore.Store
	model    *model
	stops    map[string]func()
	token    int64                    // the last one seen
	grants   int                      // new grants of the model when it was seen
	deadline map[string]time.Duration // until when each claim was told that it may work
	free     time.Time                // when the key is free at the earliest
}

// TestTheStoreDoesWhatTheModelForesees draws random calls of a few claims on one key, with time between them.
func TestTheStoreDoesWhatTheModelForesees(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// A *testing.T itself would be asked for its deadline, which no bubble knows.
		rapid.Check(struct{ *testing.T }{t}, func(r *rapid.T) {
			m := &machine{t, memstore.New(), newModel(), map[string]func(){}, 0, 0, map[string]time.Duration{}, time.Time{}}
			r.Repeat(map[string]func(*rapid.T){
				"acquire":  m.acquire,
				"poll":     m.poll,
				"release":  m.release,
				"renew":    m.renew,
				"transfer": m.transfer,
				"lose":     m.lose,
				"watch":    m.watch,
				"stop":     m.stop,
				"sleep":    m.sleep,
				"":         m.check,
			})
		})
	})
}

func drawID(r *rapid.T, label string) string {
	return rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}).Draw(r, label)
}

func drawClaim(r *rapid.T, label string) picket.Claim {
	pick := func(what string, ds ...time.Duration) time.Duration {
		return rapid.SampledFrom(ds).Draw(r, label+" "+what)
	}
	return picket.Claim{
		ID: drawID(r, label), Key: key,
		TTL:       pick("TTL", time.Second, 4*time.Second, 500*time.Millisecond),
		Queue:     rapid.Bool().Draw(r, label+" queue"),
		Recheck:   pick("recheck", 250*time.Millisecond, 0, time.Second),
		MinHold:   pick("min hold", 0, 0, 0, 2*time.Second),
		LockDelay: pick("lock delay", 0, 0, 0, time.Second),
		Doubt:     rapid.IntRange(0, 9).Draw(r, label+" doubt") == 0,
	}
}

func (m *machine) acquire(r *rapid.T) { m.attempt(r, drawClaim(r, "claim")) }

// poll is an acquire that finds the queue at work.
func (m *machine) poll(r *rapid.T) {
	m.attempt(r, picket.Claim{ID: drawID(r, "waiter"), Key: key, TTL: 4 * time.Second, Queue: true})
}

func (m *machine) attempt(r *rapid.T, c picket.Claim) {
	g, err := m.store.Acquire(m.Context(), c)
	m.compare(r, m.model.acquire(c), g, err)
	m.tell(r, c, err)
}

func (m *machine) release(r *rapid.T) {
	c := drawClaim(r, "claim")
	m.model.tick()
	held := m.model.mine(c.ID)
	err := m.store.Release(m.Context(), c)
	m.compare(r, m.model.release(c), picket.Grant{}, err)
	if held {
		m.freed(c.ID)
	}
}

func (m *machine) renew(r *rapid.T) {
	c := drawClaim(r, "claim")
	var err error
	m.store.Renew(m.Context(), []picket.Claim{c}, func(_ int, e error) { err = e })
	m.compare(r, m.model.renew(c), picket.Grant{}, err)
	if err == nil {
		m.tell(r, c, nil)
	}
}

func (m *machine) transfer(r *rapid.T) {
	from, to := drawClaim(r, "from"), drawClaim(r, "to")
	if from.ID == to.ID {
		r.Skip("two claims needed")
	}
	g, err := m.store.Transfer(m.Context(), from, to)
	m.compare(r, m.model.transfer(from, to), g, err)
	if !errors.Is(err, picket.ErrLost) && !errors.Is(err, picket.ErrRefused) {
		m.freed(from.ID)
	}
	m.tell(r, to, err)
}

func (m *machine) lose(r *rapid.T) {
	reason := rapid.SampledFrom([]picket.Reason{picket.ReasonBroken, picket.ReasonDeleted}).Draw(r, "reason")
	m.store.Lose(key, reason)
	m.model.lose(reason)
	if reason != picket.ReasonBroken {
		clear(m.deadline) // the lease was taken away on purpose
		m.free = time.Time{}
	}
}

func (m *machine) watch(r *rapid.T) {
	c := drawClaim(r, "claim")
	_, stop, err := m.store.Watch(m.Context(), c)
	if err != nil {
		r.Fatal(err)
	}
	m.stops[c.ID] = stop
	m.model.listens[c.ID] = true
	m.model.tick()
	for _, p := range m.model.waiting {
		if p.claim.ID == c.ID {
			p.heard = true
		}
	}
}

func (m *machine) stop(r *rapid.T) {
	id := drawID(r, "claim")
	if stop := m.stops[id]; stop != nil {
		stop()
		m.model.listens[id] = false
	}
}

func (m *machine) sleep(r *rapid.T) {
	d := rapid.SampledFrom([]time.Duration{time.Millisecond, 250 * time.Millisecond, time.Second, 3 * time.Second, 11 * time.Second}).Draw(r, "time")
	sleep(d)
	m.model.now += d
}

// compare checks an answer against the foreseen one.
func (m *machine) compare(r *rapid.T, want string, g picket.Grant, err error) {
	got := "ok"
	if g.Token != 0 {
		got = fmt.Sprintf("granted, %d wait", g.Waiters)
	}
	if busy, ok := errors.AsType[*picket.BusyError](err); ok {
		got = fmt.Sprintf("busy by %q for %s, %d before", busy.Holder.ID, busy.Remaining, busy.Waiters)
	} else if lost, ok := errors.AsType[*picket.LostError](err); ok {
		got = fmt.Sprintf("lost, %q", lost.Reason)
	} else if errors.Is(err, picket.ErrRefused) {
		got = "refused"
	} else if err != nil {
		r.Fatal(err)
	}
	if got != want {
		r.Fatalf("the store says: %s\nthe model says: %s", got, want)
	}
	if g.Token != 0 {
		m.rises(r, g.Token)
	}
}

// rises checks that a token is new if, and only if, the grant is.
func (m *machine) rises(r *rapid.T, token int64) {
	switch {
	case m.model.rec.grant == m.grants && token != m.token:
		r.Fatalf("token %d of a grant that had %d", token, m.token)
	case m.model.rec.grant != m.grants && token <= m.token:
		r.Fatalf("token %d of a new grant after %d", token, m.token)
	}
	m.token, m.grants = token, m.model.rec.grant
}

// tell checks exclusion: nobody is told yes while another was told and may still work.
func (m *machine) tell(r *rapid.T, c picket.Claim, err error) {
	if err != nil {
		return
	}
	for id, until := range m.deadline {
		if id != c.ID && m.model.now < until {
			r.Fatalf("%s is told while %s may work for %s more", c.ID, id, until-m.model.now)
		}
	}
	m.deadline[c.ID] = max(m.deadline[c.ID], m.model.now+c.TTL)
}

func (m *machine) freed(id string) {
	delete(m.deadline, id)
	m.free = time.Time{}
}

// check runs after each call: the status is the foreseen one, and no record became shorter.
func (m *machine) check(r *rapid.T) {
	st, err := m.store.Inspect(m.Context(), key)
	if err != nil {
		r.Fatal(err)
	}
	got := fmt.Sprintf("%s by %q for %s, %d wait", st.State, st.Holder.ID, st.Remaining, st.Waiters)
	if want := m.model.status(); got != want {
		r.Fatalf("the store says: %s\nthe model says: %s", got, want)
	}
	if st.State == picket.StatusFree {
		m.free = time.Time{}
		return
	}
	m.rises(r, st.Token)
	until := time.Now().Add(st.Remaining)
	if until.Before(m.free) && st.State == picket.StatusHeld {
		r.Fatalf("the lease was cut by %s", m.free.Sub(until))
	}
	m.free = until
}
