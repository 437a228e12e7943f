package filestore

import (
	"errors"
	"time"

	"github.com/picket-go/picket"
)

// held is a lease of this Store.
type held struct {
	rec     record
	lock    *kernelLock
	granted time.Time // with its monotonic part
	passed  bool      // the descriptor was given out: other processes may have it. Guarded by the Store's mutex
}

// lease returns what c holds, nil if nothing.
func (s *Store) lease(c picket.Claim) *held {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.held[c.Key]; h != nil && h.rec.Holder.ID == c.ID {
		return h
	}
	return nil
}

// own returns what c holds if its file is still in place. If not, the lease is over: the descriptor is closed and the error a *LostError. It is called
// in the key's turn.
func (s *Store) own(c picket.Claim) (*held, error) {
	h := s.lease(c)
	if h == nil {
		return nil, &picket.LostError{Key: c.Key, At: s.now()}
	}
	p := s.place(c.Key)
	err := inPlace(h.lock, p)
	if err == nil {
		return h, nil
	}
	if !errors.Is(err, errDeleted) && !errors.Is(err, errReplaced) {
		return nil, failed(err)
	}
	lost := &picket.LostError{Key: c.Key, Token: h.rec.Token, Reason: picket.ReasonDeleted, At: s.now()}
	if errors.Is(err, errReplaced) {
		if rec, ok, _ := s.read(p); ok && rec.Holder.ID != c.ID {
			lost.Reason = picket.ReasonStolen
		}
	}
	s.end(h)
	return nil, lost
}

// end closes h. Where the descriptor was passed on, it frees nothing for those that have it (DESIGN 4.3).
func (s *Store) end(h *held) {
	s.mu.Lock()
	delete(s.held, h.rec.key())
	passed := h.passed
	s.mu.Unlock()
	// An error changes nothing: the descriptor is closed either way.
	if passed {
		_ = h.lock.leave()
	} else {
		_ = h.lock.unlock()
	}
}

// left is how the record is marked when h is released.
func (s *Store) left(h *held) mark {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h.passed {
		return markPassed
	}
	return markFree
}

// memory is how long a claim that was undone is refused (DESIGN 3.1).
const memory = 10 * time.Minute

// tombs are the ids of claims that were released in doubt, and when. Guarded by the Store's mutex. They need no file: a late request of this process
// cannot come from another.
type tombs map[string]time.Time

// bury refuses c from now on, and forgets those it has refused for long enough.
func (s *Store) bury(c picket.Claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	for id, at := range s.gone {
		if now.Sub(at) >= memory {
			delete(s.gone, id)
		}
	}
	if s.gone == nil {
		s.gone = make(tombs)
	}
	s.gone[c.ID] = now
}

func (s *Store) buried(c picket.Claim) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, ok := s.gone[c.ID]
	return ok && s.now().Sub(at) < memory
}
