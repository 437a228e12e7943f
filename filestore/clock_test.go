package filestore

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/picket-go/picket"
)

// clocked is a Store whose clock the test moves.
func clocked(t *testing.T) (files, *time.Time) {
	t.Helper()
	now := time.Now().Round(0)
	return open(t, t.TempDir(), withNow(func() time.Time { return now })), &now
}

func TestTokensRiseWhenTheClockStepsBack(t *testing.T) {
	s, now := clocked(t)
	var last int64
	for range 5 {
		c := claim("k")
		if g := s.grant(c); g.Token <= last {
			t.Errorf("token %d after %d", g.Token, last)
		} else {
			last = g.Token
		}
		s.release(c)
		*now = now.Add(-time.Hour)
	}
}

func TestMinHoldIsKeptAfterTheReleaseAndNotLonger(t *testing.T) {
	s, now := clocked(t)
	c := claim("k")
	c.MinHold = 10 * time.Second
	g := s.grant(c)
	*now = now.Add(4 * time.Second)
	s.release(c)
	if r, _, _ := s.read(s.place("k")); r.Held != markFree {
		t.Error("the record that is kept says held") // which counts where the kernel does not list locks
	}
	b := s.busy("k")
	if b.Remaining != 6*time.Second || b.Holder.ID != "" || b.Holder.Label != "test" {
		t.Errorf("busy: %+v", b)
	}
	if st := s.state("k", picket.StatusCooling); st.Remaining != 6*time.Second || st.Token != g.Token || st.Holder != b.Holder {
		t.Errorf("status: %+v", st)
	}
	if err := s.renewal(c); !errors.Is(err, picket.ErrLost) {
		t.Errorf("Renew of the kept record = %v, want lost", err)
	}
	*now = now.Add(6 * time.Second)
	s.state("k", picket.StatusFree)
	s.grant(claim("k"))
}

func TestNobodyWaitsAnHourForTenSecondsWhenTheClockStepsBack(t *testing.T) {
	s, now := clocked(t)
	c := claim("k")
	c.MinHold = 10 * time.Second
	s.grant(c)
	s.release(c)
	*now = now.Add(-time.Hour)
	if st := s.state("k", picket.StatusCooling); st.Remaining > 10*time.Second {
		t.Errorf("%v remain", st.Remaining)
	}
	if b := s.busy("k"); b.Remaining != 10*time.Second {
		t.Errorf("%v remain", b.Remaining)
	}
	*now = now.Add(10 * time.Second)
	s.grant(claim("k"))
}

// L2: a claim that was undone is refused when its request arrives late, for as long as such a request may be under way.
func TestAnUndoneClaimIsRefusedForTenMinutes(t *testing.T) {
	s, now := clocked(t)
	c := claim("k")
	undo := c
	undo.Doubt = true
	if err := s.Release(t.Context(), undo); !errors.Is(err, picket.ErrLost) {
		t.Errorf("Release = %v", err)
	}
	if _, err := s.Acquire(t.Context(), c); !errors.Is(err, picket.ErrRefused) {
		t.Errorf("Acquire = %v, want refused", err)
	}
	s.only()
	*now = now.Add(memory)
	other := claim("k")
	other.Doubt = true
	_ = s.Release(t.Context(), other)
	if len(s.gone) != 1 {
		t.Errorf("%d tombstones, want the last only", len(s.gone))
	}
}

// GL-40: a call that waits for its turn leaves when its ctx ends, and leaves nothing.
func TestAWaitForAnotherCallOnTheKeyEndsWithCtx(t *testing.T) {
	inside, goOn := make(chan bool), make(chan bool)
	s := open(t, t.TempDir(), withStep(func(name, _ string) error {
		if name == "sync" {
			inside <- true
			<-goOn
		}
		return nil
	}))
	done := make(chan error)
	go func() {
		_, err := s.Acquire(t.Context(), claim("k"))
		done <- err
	}()
	<-inside
	ctx, cancel := context.WithCancel(t.Context())
	cancelled := make(chan error)
	go func() {
		_, err := s.Acquire(ctx, claim("k"))
		cancelled <- err
	}()
	cancel()
	if err := <-cancelled; !errors.Is(err, context.Canceled) {
		t.Errorf("Acquire = %v", err)
	}
	goOn <- true
	if err := <-done; err != nil {
		t.Error(err)
	}
	if n := len(s.turns.byKey); n != 0 {
		t.Errorf("%d turns are left", n)
	}
}
