package redisstore_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/picket-go/picket"
)

const stormCallers = 4 // in each process

// storm is the role of a process that contends for the keys. It says "ready" and begins when it is told to. Told to "die" or to "stop", it does so inside its next section
// (SIGKILL, SIGSTOP). Told to be "calm", it only waits once more for each key.
func (r *recruit) storm() {
	witness, err := os.OpenFile(r.Witness, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		r.Fatal(err)
	}
	l := picket.New(r.joins(), picket.WithTTL(r.TTL))
	warm, err := l.Acquire(r.Context(), fmt.Sprint("warm", os.Getpid()))
	if err != nil {
		r.Fatal(err)
	}
	_ = warm.Release(r.Context())
	r.say("ready")
	<-r.told
	calm, fate := make(chan struct{}), make(chan string, 1)
	go func() {
		for line := range r.told {
			if line == "calm" {
				close(calm)
				return
			}
			fate <- line
		}
	}()
	var wg sync.WaitGroup
	var gaveUp atomic.Int64
	for i := range stormCallers {
		s := &stormer{recruit: r, locker: l, witness: witness, calm: calm, fate: fate, gaveUp: &gaveUp, random: rand.New(rand.NewPCG(r.Seed, uint64(i)))} //nolint:gosec // No secret.
		if i < stormCallers/2 {
			s.only = r.Keys[0] // so that its line in the process is never empty
		}
		wg.Go(func() {
			for s.stormy() {
				s.act()
			}
			for i := range r.Keys {
				s.last(r.Keys[(i+int(s.random.Uint32N(8)))%len(r.Keys)])
			}
		})
	}
	wg.Wait()
	r.say("done", gaveUp.Load())
}

// stormer is one caller.
type stormer struct {
	*recruit
	locker  *picket.Locker
	witness *os.File
	calm    <-chan struct{}
	fate    <-chan string
	only    string // the key, or any if empty
	gaveUp  *atomic.Int64
	random  *rand.Rand
}

func (s *stormer) stormy() bool {
	select {
	case <-s.calm:
		return false
	default:
		return true
	}
}

// act is one attempt of a random kind at a random key.
func (s *stormer) act() {
	key := cmp.Or(s.only, s.Keys[s.random.IntN(len(s.Keys))])
	ctx, cancel := context.WithCancel(s.Context())
	defer cancel()
	l, began, patient := s.locker, time.Now(), false
	var lease *picket.Lease
	var err error
	switch kind := s.random.IntN(10); {
	case kind < 2: // cancelled at some moment
		timer := time.AfterFunc(time.Duration(s.random.Int64N(int64(100*time.Millisecond))), cancel)
		defer timer.Stop()
		lease, err = l.Acquire(ctx, key)
	case kind < 4:
		lease, err = l.With(picket.WithMaxWait(1+time.Duration(s.random.Int64N(int64(100*time.Millisecond))))).Acquire(ctx, key)
	case kind < 5:
		lease, err = l.TryAcquire(ctx, key)
	default:
		patient = true
		lease, err = l.Acquire(ctx, key)
	}
	switch {
	case err == nil:
		hold := time.Duration(s.random.Int64N(int64(2 * time.Millisecond)))
		if s.random.IntN(20) == 0 {
			hold *= 20
		}
		s.section(lease, hold)
		if patient && !s.stormy() {
			s.in(key, began)
		}
	case errors.Is(err, picket.ErrBusy), ctx.Err() != nil, down(err):
		s.gaveUp.Add(1)
	default:
		s.fault("Acquire(%q) = %v", key, err)
	}
}

// down reports whether the machine is very busy, or the Cluster is not there. An error reply that the Store does not know is neither.
func down(err error) bool {
	return errors.Is(err, picket.ErrUnavailable) && !strings.Contains(err.Error(), "the server answered with an error")
}

// fault tells the test.
func (s *stormer) fault(format string, args ...any) {
	s.say("fault", fmt.Sprintf(format, args...))
}

// last is the waiting after the storm.
func (s *stormer) last(key string) {
	began := time.Now()
	lease, err := s.locker.Acquire(s.Context(), key)
	for down(err) {
		lease, err = s.locker.Acquire(s.Context(), key)
	}
	if err != nil {
		s.fault("Acquire(%q) after the storm = %v", key, err)
		return
	}
	s.in(key, began)
	s.section(lease, 0)
}

// in tells how long a wait took that ended after the storm.
func (s *stormer) in(key string, began time.Time) {
	s.say("in", key, began.UnixNano(), time.Now().UnixNano())
}

// section tells the witness when it was inside and knew that it was: it notes the time, and then looks whether the lease was still good. Its first line is written when
// it has the lease, and its second one before it gives it back.
func (s *stormer) section(lease *picket.Lease, hold time.Duration) {
	from, left := time.Now(), lease.Remaining()
	if lease.Check() == nil {
		s.note("enter", lease, from, from.Add(left))
		select {
		case fate := <-s.fate:
			s.suffer(fate)
		default:
		}
		good := from
		for end := from.Add(hold); ; time.Sleep(min(time.Until(end), 5*time.Millisecond)) {
			now := time.Now()
			if lease.Check() != nil {
				break
			}
			if good = now; !now.Before(end) || !s.stormy() {
				break
			}
		}
		s.note("leave", lease, from, good)
	}
	if err := lease.Release(s.Context()); err != nil && !errors.Is(err, picket.ErrLost) && !errors.Is(err, picket.ErrUncertain) {
		s.fault("Release(%q) = %v", lease.Key(), err)
	}
}

func (s *stormer) suffer(fate string) {
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		s.Fatal(err)
	}
	if fate == "die" {
		_ = self.Kill()
		select {} // until it arrives
	}
	if err := pause(self); err != nil {
		s.fault("%v", err)
	}
}

// note appends a line in one write.
func (s *stormer) note(what string, lease *picket.Lease, from, until time.Time) {
	if _, err := fmt.Fprintln(s.witness, what, lease.Key(), lease.Token(), os.Getpid(), from.UnixNano(), until.UnixNano()); err != nil {
		s.fault("%v", err)
	}
}
