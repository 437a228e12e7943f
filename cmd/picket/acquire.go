package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/picket-go/picket"
)

// ready is what a job needs before it starts.
type ready struct {
	store   *store
	path    string // of the command
	lease   *picket.Lease
	horizon *horizon
}

// acquire gets the lock, or the error to exit with. A signal ends it even when the store hangs in a call that nothing can end, such as one to a disk that does
// not answer: then the goroutine is left to the end of the process, and what it may get is freed by the kernel.
func (p *program) acquire(ctx context.Context, s *settings, sigs *signals) (*ready, error) {
	ctx, quit := sigs.interrupts(ctx)
	type answer struct {
		ready *ready
		err   error
	}
	answers := make(chan answer, 1)
	go func() {
		r, err := p.prepare(ctx, s, sigs)
		answers <- answer{r, err}
	}()
	var a answer
	select {
	case a = <-answers:
	case <-ctx.Done():
		select {
		case a = <-answers:
		case <-time.After(stuckBound):
		}
	}
	quit()
	stop, ok := errors.AsType[*interrupted](context.Cause(ctx))
	if !ok {
		return a.ready, a.err
	}
	if a.ready != nil { // the signal came behind the grant
		a.ready.giveUp(ctx)
	}
	return nil, &exitError{exitSignal + stop.number, s.unlessQuiet("%s ended the waiting for %q", stop.name, s.key), waitingDeath(p.streams, stop.number)}
}

// giveUp releases the lock, as far as the store lets it: the signal counts, whatever becomes of the lock.
func (r *ready) giveUp(ctx context.Context) {
	released := make(chan struct{})
	go func() {
		defer close(released)
		_ = r.lease.Release(ctx)
	}()
	select {
	case <-released:
	case <-time.After(stuckBound):
	}
}

const (
	// leaveBound is how long the exit waits for a claim that was given up to be undone. A store that does not answer keeps what it may have granted for --ttl.
	leaveBound = time.Second
	stuckBound = leaveBound + 200*time.Millisecond
)

// prepare finds store and command, and gets the lock.
func (p *program) prepare(ctx context.Context, s *settings, sigs *signals) (*ready, error) {
	st, err := p.open()
	if err != nil {
		return nil, err
	}
	if err := refuseNested(ctx, os.Getenv(heldVariable), st, s.key); err != nil {
		return nil, err
	}
	path, err := findCommand(s.argv[0])
	if err != nil {
		return nil, err
	}
	h := new(horizon)
	locker := s.locker(st, h.move)
	le, err := p.await(ctx, s, st, locker, sigs)
	if err != nil {
		leave(ctx, locker)
		return nil, s.denial(st, err)
	}
	h.follow(le)
	return &ready{st, path, le, h}, nil
}

// denial is what to exit with when there is no lock.
func (s *settings) denial(st *store, err error) error {
	busy, ok := errors.AsType[*picket.BusyError](err)
	if !ok {
		return st.refusal(err)
	}
	text := busy.Error()
	if s.wait.value > 0 {
		text += "; waited " + short(s.wait.value)
	}
	return &exitError{code: int(s.busyCode), text: s.unlessQuiet("%s", text)}
}

// leave gives the place in the queue back: the Locker does that behind the caller's back, and here it would end with the process.
func leave(ctx context.Context, locker *picket.Locker) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveBound)
	defer cancel()
	_ = locker.Shutdown(ctx) // it is about to exit with an error of more interest
}

func (s *settings) unlessQuiet(format string, args ...any) string {
	if s.quiet {
		return ""
	}
	return fmt.Sprintf(format, args...)
}

// await tries once, and says whom it waits for before it does.
func (p *program) await(ctx context.Context, s *settings, st *store, locker *picket.Locker, sigs *signals) (*picket.Lease, error) {
	began := time.Now()
	first, cancel := s.first(ctx)
	defer cancel()
	le, err := locker.TryAcquire(first, s.key)
	again := errors.Is(err, picket.ErrBusy) || errors.Is(err, picket.ErrUnavailable)
	if !again || s.once() || ctx.Err() != nil {
		return le, err
	}
	sigs.waiting.Store(true)
	p.notice(s, st)
	if !s.quiet {
		text := strings.TrimPrefix(unprefixed(err), fmt.Sprintf("key %q is busy: ", s.key))
		if !errors.Is(err, picket.ErrBusy) {
			text = st.explain(err)
		}
		say(p.err, "waiting for %q: %s", s.key, text)
	}
	if s.wait.set {
		left := s.wait.value - time.Since(began)
		if left <= 0 {
			return nil, err
		}
		locker = locker.With(picket.WithMaxWait(left))
	}
	return locker.Acquire(ctx, s.key)
}

// once reports whether one attempt is all.
func (s *settings) once() bool { return s.noWait || s.wait.set && s.wait.value == 0 }

// first bounds the first attempt of who may wait: if it has no answer, the waiting goes on with what is left.
func (s *settings) first(ctx context.Context) (context.Context, context.CancelFunc) {
	const least, most = 100 * time.Millisecond, time.Second
	switch {
	case s.once():
		return context.WithCancel(ctx)
	case s.wait.set:
		return context.WithTimeout(ctx, max(least, min(most, s.wait.value)))
	}
	return context.WithTimeout(ctx, most)
}
