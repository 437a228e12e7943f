package memstore

import (
	"time"

	"github.com/picket-go/picket"
)

// confirmWindow is how long a lock that was handed over waits for its new holder to say so (DESIGN 3.6).
const confirmWindow = time.Second

// lock is all that the store knows of one key, except its last token.
type lock struct {
	rec    *record // nil if free
	handed *waiter // whom rec was handed to, until it confirms
	queue  queue
}

// lock returns the lock of key as it is now, or nil if there is nothing to know.
func (s *Store) lock(key string, now time.Time) *lock {
	l := s.locks.m[key]
	if l != nil {
		l.settle(now)
	}
	return l
}

// settle ends a record whose time is over. It tells nobody, so it changes nothing that a caller could see.
func (l *lock) settle(now time.Time) {
	if l.rec == nil || now.Before(l.rec.free) {
		return
	}
	if w := l.handed; w != nil {
		// It may be slow and not dead: others go first once, and it keeps its ticket. Until it polls it gets no other hand-off: each costs all others a window.
		w.passed, w.mute = true, true
		l.queue.putBack(w)
	}
	l.clear()
}

func (l *lock) clear() { l.rec, l.handed = nil, nil }

// over reports whether nobody would miss the lock.
func (l *lock) over(now time.Time) bool {
	if l.rec != nil && now.Before(l.rec.free) {
		return false
	}
	return l.queue.ahead("", now) == 0 && (l.handed == nil || !l.handed.alive(now))
}

// grant gives the free lock to c for its full TTL, with a new token.
func (s *Store) grant(l *lock, c picket.Claim, now time.Time) {
	l.rec = newRecord(c, s.mint(c.Key, now), now)
	l.confirm(c, now)
}

// confirm gives the record's own claim its full TTL from now, with the same token. Only now is a waiter that was handed the lock served.
func (l *lock) confirm(c picket.Claim, now time.Time) {
	l.rec.claim = c
	if l.handed != nil {
		// MinHold counts from when the holder is told, not from when it was offered the lock.
		l.handed, l.rec.granted = nil, now
	}
	l.rec.extend(c.TTL, now)
	l.queue.forgive()
}

// handOver gives a free lock to the first live waiter: for the full TTL if it is the caller, else for the time in which it must confirm.
func (s *Store) handOver(l *lock, caller string, now time.Time) {
	if l.rec != nil || len(l.queue.line) == 0 {
		return
	}
	l.queue.purge(now)
	// Who listened and has hung up since its last poll would not hear of it: it is passed over at once. The caller polls right now.
	w := l.queue.next(func(w *waiter) bool { return !w.heard || s.listens(w.claim.ID) })
	if w == nil {
		return
	}
	l.queue.leave(w.claim.ID)
	if w.claim.ID == caller {
		s.grant(l, w.claim, now)
		return
	}
	l.handed = w
	l.rec = newRecord(w.claim, s.mint(w.claim.Key, now), now)
	// No lock delay: nobody has worked yet.
	l.rec.ends = now.Add(min(w.claim.TTL, confirmWindow))
	l.rec.free = l.rec.ends
	s.wake(w.claim.ID)
}

// end gives the lock back: at once, or when the MinHold of c is over.
func (l *lock) end(c picket.Claim, now time.Time) {
	until := l.rec.granted.Add(c.MinHold)
	if l.handed != nil || !until.After(now) {
		l.clear()
		return
	}
	l.rec.keep(until)
}

// passOn hands over what a call has left free, and forgets a lock that nobody has and nobody wants.
func (s *Store) passOn(key string, l *lock, now time.Time) {
	s.handOver(l, "", now)
	if l.rec == nil && len(l.queue.line) == 0 {
		delete(s.locks.m, key)
	}
}
