package locktest

import (
	"context"
	"crypto/rand"
	"errors"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/picket-go/picket"
)

const (
	patience = 20 * time.Second // for what must happen, but by no stated time: dead waiters live up to 10 s (DESIGN 3.6)
	late     = time.Second      // a store may notice an expiry this late
)

// env is what one check works with. Its methods fail the test at once when the store breaks its contract.
type env struct {
	*testing.T
	conf  Config
	store picket.Store
	base  string
	keys  *atomic.Int32
	calm  time.Time // until then a failure is the store's; zero is always
}

func newEnv(t *testing.T, c Config) *env {
	return &env{T: t, conf: c, store: c.New(t), base: "locktest-" + rand.Text()[:12], keys: new(atomic.Int32)}
}

// on returns e with another client of the same store.
func (e *env) on(s picket.Store) *env {
	return &env{T: e.T, conf: e.conf, store: s, base: e.base, keys: e.keys}
}

// within says that what follows is told of the store only if it takes less than d in all: an unconfirmed hand-off ends after a second, and a machine
// that stalls for so long proves nothing.
func (e *env) within(d time.Duration) { e.calm = time.Now().Add(d) }

// Fatalf fails the test, or skips the rest of it if the machine stalled.
func (e *env) Fatalf(format string, args ...any) {
	e.Helper()
	if !e.calm.IsZero() && time.Now().After(e.calm) {
		e.Skipf("the machine stalled, so this proves nothing: "+format, args...)
	}
	e.T.Fatalf(format, args...)
}

// key returns a key that nobody has used.
func (e *env) key() string {
	return e.base + "-" + strconv.Itoa(int(e.keys.Add(1)))
}

// long is a TTL that does not end within a check however slow the machine is.
func (e *env) long() time.Duration { return max(30*time.Second, 20*e.conf.TTL) }

// early is how much sooner than asked a lease may end: clocks of milliseconds and a round trip's rounding.
func (e *env) early() time.Duration { return 5*time.Millisecond + e.conf.TTL/20 }

// claim is a new claim that neither expires within the check nor queues.
func (e *env) claim(key string) picket.Claim { return e.claimAs(rand.Text(), key) }

func (e *env) claimAs(id, key string) picket.Claim {
	return picket.Claim{
		ID:     id,
		Key:    key,
		TTL:    e.long(),
		Holder: picket.Holder{ID: id, Host: "locktest", PID: 4711, Since: time.Now().Truncate(time.Millisecond), Label: "label of " + id[:min(5, len(id))]},
	}
}

// brief is a new claim with the shortest TTL.
func (e *env) brief(key string) picket.Claim {
	c := e.claim(key)
	c.TTL = e.conf.TTL
	return c
}

// waiter is a new claim that queues and lives as long as the check.
func (e *env) waiter(key string) picket.Claim {
	c := e.claim(key)
	c.Queue, c.Recheck = true, e.long()
	return c
}

// bounded ends a call that the store would never end.
func (e *env) bounded() (context.Context, context.CancelFunc) {
	return context.WithTimeout(e.Context(), patience)
}

// lease is a granted claim and the moments its last grant was asked for and known.
type lease struct {
	picket.Claim
	picket.Grant
	sent, got time.Time
}

// ttl is what the store really set.
func (l lease) ttl() time.Duration {
	if l.Grant.TTL != 0 {
		return l.Grant.TTL
	}
	return l.Claim.TTL
}

// acquire makes one attempt.
func (e *env) acquire(c picket.Claim) (lease, error) {
	ctx, cancel := e.bounded()
	defer cancel()
	l := lease{Claim: c, sent: time.Now()}
	g, err := e.store.Acquire(ctx, c)
	l.Grant, l.got = g, time.Now()
	return l, err
}

// granted makes one attempt that must succeed, and gives the key back after the check.
func (e *env) granted(c picket.Claim) lease {
	e.Helper()
	l, err := e.acquire(c)
	if err != nil {
		e.Fatalf("Acquire(%s of %q) = %v, want a grant", c.ID, c.Key, err)
	}
	if l.Token <= 0 {
		e.Fatalf("Acquire(%q) gave token %d, want a positive one", c.Key, l.Token)
	}
	e.clean(c)
	return l
}

func (e *env) clean(c picket.Claim) {
	ctx := context.WithoutCancel(e.Context())
	e.Cleanup(func() {
		ctx, cancel := context.WithTimeout(ctx, late)
		defer cancel()
		_ = e.store.Release(ctx, c) // most are released by the check
	})
}

// busy makes one attempt that must find the key busy.
func (e *env) busy(c picket.Claim) *picket.BusyError {
	e.Helper()
	l, err := e.acquire(c)
	b, ok := errors.AsType[*picket.BusyError](err)
	switch {
	case err == nil:
		e.clean(c)
		e.Fatalf("Acquire(%s of %q) was granted token %d, want a *BusyError", c.ID, c.Key, l.Token)
	case !ok:
		e.Fatalf("Acquire(%s of %q) = %v, want a *BusyError", c.ID, c.Key, err)
	case !errors.Is(err, picket.ErrBusy) || b.Key != c.Key:
		e.Fatalf("Acquire(%q) = %#v, want ErrBusy with that key", c.Key, b)
	}
	return b
}

// busyBy is busy and says by which claim.
func (e *env) busyBy(c, holder picket.Claim) *picket.BusyError {
	e.Helper()
	b := e.busy(c)
	if b.Holder.ID != holder.ID {
		e.Fatalf("Acquire(%q) is busy by %q, want %q", c.Key, b.Holder.ID, holder.ID)
	}
	return b
}

// eventually repeats c until it is granted, for at most d.
func (e *env) eventually(c picket.Claim, d time.Duration) lease {
	e.Helper()
	for end := time.Now().Add(d); ; {
		sent := time.Now()
		l, err := e.acquire(c)
		if err == nil {
			e.clean(c)
			return l
		}
		if !errors.Is(err, picket.ErrBusy) {
			e.Fatalf("Acquire(%s of %q) = %v, want a grant or a *BusyError", c.ID, c.Key, err)
		}
		// A request that left after the end must have found the key free; one that took long proves nothing.
		if sent.After(end) {
			e.Fatalf("Acquire(%s of %q) = %v, still after %v", c.ID, c.Key, err, d)
		}
		e.pause(min(e.conf.TTL/20, 20*time.Millisecond))
	}
}

// renew renews one claim and returns what was reported.
func (e *env) renew(c picket.Claim) error {
	e.Helper()
	return e.renewAll([]picket.Claim{c})[0]
}

// release ends c's lease or place, which must be there.
func (e *env) release(c picket.Claim) {
	e.Helper()
	if err := e.tryRelease(c); err != nil {
		e.Fatalf("Release(%s of %q) = %v, want nil", c.ID, c.Key, err)
	}
}

func (e *env) tryRelease(c picket.Claim) error {
	ctx, cancel := e.bounded()
	defer cancel()
	return e.store.Release(ctx, c)
}

// lost fails unless err is a *LostError for c's key.
func (e *env) lost(what string, c picket.Claim, err error) *picket.LostError {
	e.Helper()
	l, ok := errors.AsType[*picket.LostError](err)
	if !ok || !errors.Is(err, picket.ErrLost) || l.Key != c.Key {
		e.Fatalf("%s(%s of %q) = %v, want a *LostError of that key", what, c.ID, c.Key, err)
	}
	return l
}

// seen is a Status and the moments it was asked for and known.
type seen struct {
	picket.Status
	sent, got time.Time
}

func (e *env) inspect(key string) seen {
	e.Helper()
	ctx, cancel := e.bounded()
	defer cancel()
	s := seen{sent: time.Now()}
	st, err := e.store.Inspect(ctx, key)
	if err != nil {
		e.Fatalf("Inspect(%q) = %v", key, err)
	}
	if st.Key != key {
		e.Fatalf("Inspect(%q) is about key %q", key, st.Key)
	}
	s.Status, s.got = st, time.Now()
	return s
}

// state fails unless key is in that state.
func (e *env) state(key, want string) seen {
	e.Helper()
	s := e.inspect(key)
	if s.State != want {
		e.Fatalf("Inspect(%q) says %q by %q for %v, want %q", key, s.State, s.Holder.ID, s.Remaining, want)
	}
	return s
}

// heldBy fails unless c has the key.
func (e *env) heldBy(c picket.Claim) seen {
	e.Helper()
	s := e.state(c.Key, picket.StatusHeld)
	if s.Holder.ID != c.ID {
		e.Fatalf("Inspect(%q) says held by %q, want %q", c.Key, s.Holder.ID, c.ID)
	}
	return s
}

// stillHolds fails unless c's lease is untouched.
func (e *env) stillHolds(c picket.Claim) {
	e.Helper()
	e.heldBy(c)
	if err := e.renew(c); err != nil {
		e.Fatalf("Renew(%s of %q) = %v, want nil: its lease should be untouched", c.ID, c.Key, err)
	}
}

// remains fails unless the record of l shows what is left of ttl after a write that was sent at l.sent and answered at l.got.
func (e *env) remains(l lease, ttl time.Duration) {
	e.Helper()
	s := e.heldBy(l.Claim)
	if e.conf.NoExpiry {
		if s.Remaining != picket.NoExpiry {
			e.Fatalf("%q remains %v, want NoExpiry", l.Key, s.Remaining)
		}
		return
	}
	least, most := ttl-s.got.Sub(l.sent)-e.early(), ttl-s.sent.Sub(l.got)+e.early()
	if s.Remaining < least || s.Remaining > most {
		e.Fatalf("%q remains %v, want %v to %v: the TTL is %v", l.Key, s.Remaining, least, most, ttl)
	}
}

// until waits for a moment that the store's clock must have passed.
func (e *env) until(at time.Time) { e.pause(time.Until(at)) }

func (e *env) pause(d time.Duration) {
	select {
	case <-time.After(d):
	case <-e.Context().Done():
	}
}

// over is when l has ended at the store by everybody's clock.
func (e *env) over(l lease) time.Time { return l.got.Add(l.ttl() + e.early()) }

// ends waits until l has expired and the store says so.
func (e *env) ends(l lease) {
	e.Helper()
	e.until(e.over(l))
	e.settles(l.Key)
}

// settles waits until key is free: an expiry may be noticed late, and a clean-up may still be on its way.
func (e *env) settles(key string) {
	e.Helper()
	for end := time.Now().Add(late + window); ; e.pause(time.Millisecond) {
		sent := time.Now()
		s := e.inspect(key)
		if s.State == picket.StatusFree && s.Waiters <= 0 {
			return
		}
		if sent.After(end) {
			e.Fatalf("%q is still %s by %q with %d waiters", key, s.State, s.Holder.ID, s.Waiters)
		}
	}
}
