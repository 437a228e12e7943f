package memstore

import (
	"maps"
	"time"
)

// ledger is a map that forgets. It is swept when it has doubled since the last sweep, and once an hour, so that a put costs constant time on average and what is over
// does not pile up.
type ledger[V any] struct {
	m    map[string]V
	over func(v V, now time.Time) bool
	full int       // the size at which to sweep
	due  time.Time // when to sweep
}

const (
	sweepSize  = 128
	sweepEvery = time.Hour
)

// get returns what is kept under key and not over.
func (l *ledger[V]) get(key string, now time.Time) (v V, ok bool) {
	v, ok = l.m[key]
	if !ok || l.over(v, now) {
		var none V
		return none, false
	}
	return v, true
}

func (l *ledger[V]) put(key string, v V, now time.Time) {
	if len(l.m) >= l.full || !now.Before(l.due) {
		l.sweep(now)
	}
	l.m[key] = v
}

func (l *ledger[V]) sweep(now time.Time) {
	before := len(l.m)
	maps.DeleteFunc(l.m, func(_ string, v V) bool { return l.over(v, now) })
	if l.m == nil || len(l.m) < before/4 {
		// A Go map never gives memory back: one burst of one-shot keys would be paid for ever.
		rest := make(map[string]V, len(l.m))
		maps.Copy(rest, l.m)
		l.m = rest
	}
	l.full = max(sweepSize, 2*len(l.m))
	l.due = now.Add(sweepEvery)
}
