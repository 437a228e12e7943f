package locktest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/picket-go/picket"
	"github.com/picket-go/picket/memstore"
)

// broken is a memstore that breaks one rule of the contract.
type broken struct {
	rule    string
	caught  string // the subtest that must fail, theme/sentence
	clients func() func() picket.Store
}

// shared makes all clients one store.
func shared(s picket.Store) func() func() picket.Store {
	return func() func() picket.Store { return func() picket.Store { return s } }
}

func brokenStores() []broken {
	base := memstore.New
	return []broken{
		{"clients do not exclude each other", "acquire/one claim holds, every other is busy, on every client", func() func() picket.Store {
			return func() picket.Store { return base() }
		}},
		{"renewing creates a record", "renew/renewing never creates a record", shared(recreates{base()})},
		{"renewing revives an expired lease", "renew/renewing never revives an expired lease", shared(recreates{base()})},
		{"ids are compared by a prefix", "acquire/ids are compared whole", shared(prefixed{base()})},
		{"the own claim again is busy", "acquire/the same claim again gets the same token and the full TTL", shared(&forgetful{Store: base()})},
		{"the own claim again is answered by a read", "acquire/the same claim again gets the same token and the full TTL", shared(&reads{Store: base()})},
		{"the token is always one", "token/tokens rise with every release", shared(constant{base()})},
		{"tokens start again when a record is gone", "token/tokens rise with every expiry", shared(&restarts{Store: base()})},
		{"the last token is forgotten with the record", "token/the last token stays when the key is free", shared(tokenless{base()})},
		{"anybody passes waiters", "queue/a try never passes a live waiter and names the one served", shared(barges{base()})},
		{"a place outlives the try", "queue/a try leaves no place behind", shared(lingers{base()})},
		{"the last waiter is served first", "queue/waiters are served in the order they came", shared(&stack{Store: base()})},
		{"releasing does not look at the owner", "release/another's record is left alone and gives a LostError", shared(anyone{base()})},
		{"a second release is a success", "release/a second release gives a LostError", shared(smooth{base()})},
		{"renewing sets, so it shortens", "renew/renewing to a smaller TTL never shortens the lease", shared(&shortens{Store: base()})},
		{"renewing changes nothing", "renew/renewing sets the remaining time back to the TTL", shared(idle{base()})},
		{"a lost claim is not reported", "renew/a mixed batch reports each claim once and none after it returned", shared(silent{base()})},
		{"the record of MinHold keeps the claim's id", "min-hold/the record that MinHold keeps matches no claim", shared(&keepsID{Store: base()})},
		{"MinHold is ignored", "min-hold/a released key stays busy until its MinHold is over and not longer", shared(claims(func(c *picket.Claim) { c.MinHold = 0 }))},
		{"LockDelay is ignored", "lock-delay/a lost key stays busy until its LockDelay is over and not longer", shared(claims(func(c *picket.Claim) { c.LockDelay = 0 }))},
		{"a weight is taken for an exclusive claim", "refuse/weights are refused with ErrUnsupported", shared(claims(func(c *picket.Claim) { c.Weight, c.Capacity = 0, 0 }))},
		{"an undo leaves no tombstone", "undo/an undone id is burnt: its late acquire is refused and the key stays free", shared(claims(func(c *picket.Claim) { c.Doubt = false }))},
		{"keys differ by case only and collide", "key/odd keys never collide", shared(claims(func(c *picket.Claim) { c.Key = strings.ToLower(c.Key) }))},
		{"an ended ctx is ignored", "ctx/an acquire with an ended ctx returns its error and leaves nothing", shared(deaf{base()})},
		{"a transfer is a release and a try", "transfer/a swap is unconditional: waiters stay behind it", shared(twoActs{base()})},
	}
}

// recreates grants the claim that it should renew.
type recreates struct{ *memstore.Store }

func (s recreates) Renew(ctx context.Context, cs []picket.Claim, report func(int, error)) {
	s.Store.Renew(ctx, cs, func(i int, err error) {
		if errors.Is(err, picket.ErrLost) {
			if _, e := s.Acquire(ctx, cs[i]); e == nil {
				err = nil
			}
		}
		report(i, err)
	})
}

// claims is a memstore that changes every claim first.
func claims(change func(*picket.Claim)) picket.Store { return changed{memstore.New(), change} }

type changed struct {
	*memstore.Store
	change func(*picket.Claim)
}

func (s changed) Acquire(ctx context.Context, c picket.Claim) (picket.Grant, error) {
	s.change(&c)
	return s.Store.Acquire(ctx, c)
}

func (s changed) Release(ctx context.Context, c picket.Claim) error {
	s.change(&c)
	return s.Store.Release(ctx, c)
}

// prefixed looks at the first 25 bytes of an id.
type prefixed struct{ *memstore.Store }

func (s prefixed) cut(c picket.Claim) picket.Claim {
	c.ID = c.ID[:min(25, len(c.ID))]
	return c
}

func (s prefixed) Acquire(ctx context.Context, c picket.Claim) (picket.Grant, error) {
	return s.Store.Acquire(ctx, s.cut(c))
}

func (s prefixed) Release(ctx context.Context, c picket.Claim) error {
	return s.Store.Release(ctx, s.cut(c))
}

func (s prefixed) Renew(ctx context.Context, cs []picket.Claim, report func(int, error)) {
	short := make([]picket.Claim, len(cs))
	for i, c := range cs {
		short[i] = s.cut(c)
	}
	s.Store.Renew(ctx, short, report)
}

// forgetful takes a claim it has granted for another's.
type forgetful struct {
	*memstore.Store
	granted sync.Map
}

func (s *forgetful) Acquire(ctx context.Context, c picket.Claim) (picket.Grant, error) {
	if _, ok := s.granted.Load(c.ID); ok {
		return picket.Grant{}, &picket.BusyError{Key: c.Key, Holder: c.Holder}
	}
	g, err := s.Store.Acquire(ctx, c)
	if err == nil {
		s.granted.Store(c.ID, true)
	}
	return g, err
}

// reads answers the second attempt of a claim from what it knows.
type reads struct {
	*memstore.Store
	granted sync.Map
}

func (s *reads) Acquire(ctx context.Context, c picket.Claim) (picket.Grant, error) {
	if st, err := s.Inspect(ctx, c.Key); err == nil && st.Holder.ID == c.ID {
		if g, ok := s.granted.Load(c.ID); ok {
			return g.(picket.Grant), nil
		}
	}
	g, err := s.Store.Acquire(ctx, c)
	if err == nil {
		s.granted.Store(c.ID, g)
	}
	return g, err
}

type constant struct{ *memstore.Store }

func (s constant) Acquire(ctx context.Context, c picket.Claim) (picket.Grant, error) {
	g, err := s.Store.Acquire(ctx, c)
	g.Token = 1
	return g, err
}

// restarts counts tokens in the record: a release hands the count on, an expiry loses it.
type restarts struct {
	*memstore.Store
	mu    sync.Mutex
	count map[string]int64
	clean map[string]bool
}

func (s *restarts) Acquire(ctx context.Context, c picket.Claim) (picket.Grant, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, _ := s.Inspect(ctx, c.Key)
	g, err := s.Store.Acquire(ctx, c)
	if err != nil {
		return g, err
	}
	if s.count == nil {
		s.count, s.clean = map[string]int64{}, map[string]bool{}
	}
	switch {
	case before.Holder.ID == c.ID:
	case before.State == picket.StatusFree && !s.clean[c.Key]:
		s.count[c.Key] = 1
	default:
		s.count[c.Key]++
	}
	s.clean[c.Key] = false
	g.Token = s.count[c.Key]
	return g, nil
}

func (s *restarts) Release(ctx context.Context, c picket.Claim) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.Store.Release(ctx, c)
	if err == nil {
		s.clean[c.Key] = true
	}
	return err
}

type tokenless struct{ *memstore.Store }

func (s tokenless) Inspect(ctx context.Context, key string) (picket.Status, error) {
	st, err := s.Store.Inspect(ctx, key)
	if st.State == picket.StatusFree {
		st.Token = 0
	}
	return st, err
}

// barges lets everybody poll and keeps no place for anybody.
type barges struct{ *memstore.Store }

func (s barges) Acquire(ctx context.Context, c picket.Claim) (picket.Grant, error) {
	c.Queue = false
	return s.Store.Acquire(ctx, c)
}

type lingers struct{ *memstore.Store }

func (s lingers) Acquire(ctx context.Context, c picket.Claim) (picket.Grant, error) {
	c.Queue, c.Recheck = true, time.Minute
	return s.Store.Acquire(ctx, c)
}

// stack puts each newcomer before those that wait, by queueing them again behind it.
type stack struct {
	*memstore.Store
	mu    sync.Mutex
	lines map[string][]picket.Claim
}

func (s *stack) Acquire(ctx context.Context, c picket.Claim) (picket.Grant, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, err := s.Store.Acquire(ctx, c)
	if !errors.Is(err, picket.ErrBusy) || !c.Queue {
		return g, err
	}
	if s.lines == nil {
		s.lines = map[string][]picket.Claim{}
	}
	for _, w := range s.lines[c.Key] {
		if w.ID == c.ID {
			return g, err
		}
	}
	line := append([]picket.Claim{c}, s.lines[c.Key]...)
	for _, w := range line[1:] {
		if s.Store.Release(ctx, w) == nil {
			_, _ = s.Store.Acquire(ctx, w)
		}
	}
	s.lines[c.Key] = line
	return g, err
}

type anyone struct{ *memstore.Store }

func (s anyone) Release(ctx context.Context, c picket.Claim) error {
	if st, err := s.Inspect(ctx, c.Key); err == nil && st.State == picket.StatusHeld {
		c.ID = st.Holder.ID
	}
	return s.Store.Release(ctx, c)
}

type smooth struct{ *memstore.Store }

func (s smooth) Release(ctx context.Context, c picket.Claim) error {
	if err := s.Store.Release(ctx, c); !errors.Is(err, picket.ErrLost) {
		return err
	}
	return nil
}

// shortens keeps the end that the last renewal set, even if it is nearer than the one before.
type shortens struct {
	*memstore.Store
	ends sync.Map
}

func (s *shortens) Renew(ctx context.Context, cs []picket.Claim, report func(int, error)) {
	s.Store.Renew(ctx, cs, func(i int, err error) {
		if err == nil {
			s.ends.Store(cs[i].Key, time.Now().Add(cs[i].TTL))
		}
		report(i, err)
	})
}

func (s *shortens) Inspect(ctx context.Context, key string) (picket.Status, error) {
	st, err := s.Store.Inspect(ctx, key)
	if end, ok := s.ends.Load(key); ok {
		st.Remaining = min(st.Remaining, time.Until(end.(time.Time)))
	}
	return st, err
}

type idle struct{ *memstore.Store }

func (s idle) Renew(ctx context.Context, cs []picket.Claim, report func(int, error)) {
	for i, c := range cs {
		st, err := s.Inspect(ctx, c.Key)
		if err == nil && st.Holder.ID != c.ID {
			err = &picket.LostError{Key: c.Key}
		}
		report(i, err)
	}
}

type silent struct{ *memstore.Store }

func (s silent) Renew(ctx context.Context, cs []picket.Claim, report func(int, error)) {
	s.Store.Renew(ctx, cs, func(i int, err error) {
		if err == nil {
			report(i, nil)
		}
	})
}

// keepsID lets a released claim renew the record that MinHold keeps.
type keepsID struct {
	*memstore.Store
	kept sync.Map
}

func (s *keepsID) Release(ctx context.Context, c picket.Claim) error {
	err := s.Store.Release(ctx, c)
	if err == nil && c.MinHold > 0 {
		s.kept.Store(c.ID, true)
	}
	return err
}

func (s *keepsID) Renew(ctx context.Context, cs []picket.Claim, report func(int, error)) {
	s.Store.Renew(ctx, cs, func(i int, err error) {
		if _, ok := s.kept.Load(cs[i].ID); ok {
			err = nil
		}
		report(i, err)
	})
}

type deaf struct{ *memstore.Store }

func (s deaf) Acquire(ctx context.Context, c picket.Claim) (picket.Grant, error) {
	return s.Store.Acquire(context.WithoutCancel(ctx), c)
}

type twoActs struct{ *memstore.Store }

func (s twoActs) Transfer(ctx context.Context, from, to picket.Claim) (picket.Grant, error) {
	if err := s.Release(ctx, from); err != nil {
		return picket.Grant{}, fmt.Errorf("transfer: %w", err)
	}
	return s.Acquire(ctx, to)
}
