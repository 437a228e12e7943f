package picket

import (
	"slices"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/picket-go/picket/internal/lease"
)

// Option is a setting of New and With. Each option's comment states its default.
type Option func(*settings)

type settings struct {
	ttl, maxWait, maxHold, minHold, lockDelay time.Duration
	margins                                   lease.Margins
	fixed                                     bool // no renewals
	label                                     string
	observers                                 []*Observer // by identity: one that several Lockers share sees a batch once
	err                                       error       // the first option that made no sense
}

func defaults() settings { return settings{ttl: 30 * time.Second, margins: lease.Default()} }

// apply changes s by opts and checks it as a whole. A later valid option does not hide an invalid one: the caller is shown the first.
func (s *settings) apply(opts []Option) {
	s.observers = slices.Clip(s.observers) // those of the Locker it was copied from
	for i, opt := range opts {
		if opt == nil {
			s.refuse("option %d is nil", i+1)
			continue
		}
		opt(s)
	}
	if s.err == nil {
		s.check()
	}
}

func (s *settings) refuse(format string, args ...any) {
	if s.err == nil {
		s.err = invalid(format, args...)
	}
}

func (s *settings) check() {
	if err := s.margins.Check(s.term()); err != nil {
		s.refuse("%v", err)
	}
}

// term is the longest time between two answers that the holder may live on: margins are taken off it.
func (s *settings) term() time.Duration {
	if s.maxHold > 0 {
		return min(s.ttl, s.maxHold)
	}
	return s.ttl
}

// terms of a lease granted at t.
func (s *settings) terms(t lease.Instant) lease.Terms {
	limit := lease.Forever
	if s.maxHold > 0 {
		limit = lease.Until(t, s.maxHold)
	}
	return lease.Terms{Margins: s.margins, TTL: s.term(), Limit: limit}
}

func checkTTL(d time.Duration) error {
	if d < lease.MinTTL || d > lease.MaxTTL {
		return invalid("TTL %s is not between %s and %s", d, lease.MinTTL, lease.MaxTTL)
	}
	return nil
}

// WithTTL sets how long the store keeps a lease without renewal: 100 ms to 24 h, default 30 s.
func WithTTL(d time.Duration) Option {
	return func(s *settings) {
		if err := checkTTL(d); err != nil && s.err == nil {
			s.err = err
		}
		s.ttl = d
	}
}

// WithMaxWait bounds the waiting of Acquire and Do apart from ctx; then the error is a plain *BusyError, or ErrUnavailable if the store was silent. Default: no bound.
// Zero and less are ErrInvalid (use Try…).
func WithMaxWait(d time.Duration) Option {
	return func(s *settings) {
		if d <= 0 {
			s.refuse("MaxWait %s is not positive: use TryAcquire or TryDo for one attempt", d)
		}
		s.maxWait = d
	}
}

// WithGrace sets how long before the deadline contexts end. Default: TTL/20, at least 50 ms, at most 2 s, never more than TTL/4 (of MaxHold, if that is shorter than
// the TTL). Grace and drift together may take half of the TTL.
func WithGrace(d time.Duration) Option {
	return func(s *settings) {
		if d < 0 {
			s.refuse("grace %s is negative", d)
		}
		s.margins.Grace, s.margins.GraceSet = d, true
	}
}

// WithDrift sets what is taken off a TTL for clock rates: default 1 % + 2 ms.
func WithDrift(ratio float64, fixed time.Duration) Option {
	return func(s *settings) { s.margins.DriftRatio, s.margins.DriftFixed = ratio, fixed }
}

// WithoutRenewal makes fixed leases: they end after the TTL unless Renew is called.
func WithoutRenewal() Option {
	return func(s *settings) { s.fixed = true }
}

// WithMaxHold ends a lease this long after its grant although its holder lives; default 0, no limit. Contexts end a grace earlier, as at any deadline. At least 100 ms.
func WithMaxHold(d time.Duration) Option {
	return func(s *settings) {
		if d != 0 && d < lease.MinTTL {
			s.refuse("MaxHold %s is neither 0 nor at least %s", d, lease.MinTTL)
		}
		s.maxHold = d
	}
}

// WithMinHold keeps the key busy until this long after the grant although it was released; default 0, at most 24 h.
func WithMinHold(d time.Duration) Option {
	return func(s *settings) {
		if d < 0 || d > lease.MaxTTL {
			s.refuse("MinHold %s is not between 0 and %s", d, lease.MaxTTL)
		}
		s.minHold = d
	}
}

// WithLockDelay keeps the key busy this long after a lease that ended without release; default 0, at most 24 h.
func WithLockDelay(d time.Duration) Option {
	return func(s *settings) {
		if d < 0 || d > lease.MaxTTL {
			s.refuse("LockDelay %s is not between 0 and %s", d, lease.MaxTTL)
		}
		s.lockDelay = d
	}
}

// WithLabel sets what an operator reads in Holder.Label: at most 128 bytes of printable text. Default: none.
func WithLabel(label string) Option {
	return func(s *settings) {
		if len(label) > 128 || !utf8.ValidString(label) || !printableText(label) {
			s.refuse("label %q is not printable text of at most 128 bytes", label)
		}
		s.label = label
	}
}

func printableText(s string) bool {
	for _, r := range s {
		if !unicode.IsPrint(r) {
			return false
		}
	}
	return true
}

// WithObserver adds an observer; it may be given more than once. Default: none.
func WithObserver(o Observer) Option {
	return func(s *settings) { s.observers = append(s.observers, &o) }
}
