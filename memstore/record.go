package memstore

import (
	"time"

	"github.com/picket-go/picket"
)

// record is one grant of a key.
type record struct {
	claim   picket.Claim
	token   int64
	granted time.Time
	ends    time.Time // the lease; no renewal from then on
	free    time.Time // the key; later than ends by the lock delay
	kept    bool      // released before its MinHold was over; it has no claim id, so no late renewal or retry matches it
	broken  bool      // by an operator
}

func newRecord(c picket.Claim, token int64, now time.Time) *record {
	return &record{claim: c, token: token, granted: now}
}

// is reports whether the record belongs to the claim with this id. The ids are compared whole.
func (r *record) is(id string) bool { return r != nil && !r.kept && r.claim.ID == id }

// live reports whether the lease goes on, so that its holder may work and renew it.
func (r *record) live(now time.Time) bool { return !r.kept && !r.broken && now.Before(r.ends) }

// extend sets the remaining time to ttl, and never shortens it: a late request would cut a longer lease (DESIGN 3.2).
func (r *record) extend(ttl time.Duration, now time.Time) {
	r.claim.TTL = ttl
	r.ends = later(r.ends, now.Add(ttl))
	r.free = later(r.free, r.ends.Add(r.claim.LockDelay))
}

// keep turns a released record into one that only holds the key until then.
func (r *record) keep(until time.Time) {
	r.claim.ID, r.kept = "", true
	r.ends, r.free = until, until
}

// holder returns who an operator looks for.
func (r *record) holder() picket.Holder {
	h := r.claim.Holder
	h.ID = r.claim.ID
	h.Since = r.granted.Truncate(time.Millisecond)
	return h
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
