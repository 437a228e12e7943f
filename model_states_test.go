package picket_test

import (
	"slices"
	"sync"

	"github.com/picket-go/picket"
)

// states follows the state of each lease by what observers are told.
type states struct {
	*journal
	mu  sync.Mutex
	now map[*picket.Lease]picket.State
}

// next is which states may follow which (DESIGN 2).
var next = map[picket.State][]picket.State{
	picket.StateHeld:     {picket.StateJeopardy, picket.StateEnding, picket.StateLost, picket.StateReleased},
	picket.StateJeopardy: {picket.StateHeld, picket.StateEnding, picket.StateLost, picket.StateReleased},
	picket.StateEnding:   {picket.StateLost, picket.StateReleased},
}

func (s *states) observer() picket.Observer {
	return picket.Observer{LeaseChange: s.change, RenewEnd: s.renewed}
}

func (s *states) change(e picket.LeaseEvent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.now[e.Lease]
	id := s.name(e.Lease.Holder().ID)
	s.log("          %s: %s, %v", id, e.To, e.Err)
	switch {
	case e.From != was:
		s.violation(badState, "%s goes from %s to %s, but was %s", id, e.From, e.To, was)
	case !slices.Contains(next[e.From], e.To):
		s.violation(badState, "%s goes from %s to %s", id, e.From, e.To)
	case e.To >= picket.StateEnding && e.Lease.Check() == nil:
		s.violation(badState, "%s is %s and Check is nil", id, e.To)
	}
	s.now[e.Lease] = e.To
}

func (s *states) renewed(e picket.RenewEvent) {
	if e.Leases == 0 || e.Renewed+e.Lost+e.Unanswered != e.Leases {
		s.violation(badState, "a batch does not add up: %+v", e)
	}
}

func (s *states) of(l *picket.Lease) picket.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now[l]
}
