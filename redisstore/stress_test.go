package redisstore_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/picket-go/picket/internal/redistest"
)

// stressVariable asks for more rounds: PICKET_STRESS_ROUNDS=20 go test -race -run TestStress ./redisstore/
const stressVariable = "PICKET_STRESS_ROUNDS"

// stressRounds runs f twice, or as often as the variable says.
func stressRounds(t *testing.T, f func(t *testing.T, seed uint64, round int)) {
	rounds := 2
	if s := os.Getenv(stressVariable); s != "" {
		var err error
		if rounds, err = strconv.Atoi(s); err != nil || rounds < 1 {
			t.Fatalf("%s=%q: want a number of rounds", stressVariable, s)
		}
	}
	for i := range rounds {
		t.Run(fmt.Sprint("round ", i+1), func(t *testing.T) {
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			f(t, seed, i)
		})
	}
}

// TestStress has 16 processes contend for three keys of one server: random holds, waits that are cancelled or limited, tries, kill -9 of four, one of them a holder, and in
// every second round one that is stopped in a section for longer than its TTL.
//
// No two are inside at once and tokens rise from section to section: a witness says so that is not the lock. First in, first out within the bound of DESIGN 3.6: the
// server's own journal says so. And whoever waits when the storm ends is in within a second of that, or of the end of what the dead have left (Q1, GL-38, GL-40, GL-43).
func TestStress(t *testing.T) {
	stressRounds(t, func(t *testing.T, seed uint64, round int) {
		const (
			ttl      = time.Second
			duration = 1200 * time.Millisecond // longer than the TTL, so that who is stopped has lost its lease when it goes on
		)
		server := redistest.Start(t)
		journal := monitor(t, server)
		s := muster(t, seed, orders{Addr: server.Addr(), Keys: []string{"a", "b", "c"}, TTL: ttl})
		stop := round%2 == 1
		if stop {
			s.stop()
		}
		for range 3 {
			time.Sleep(duration / 3)
			s.kill()
		}
		s.killHolder()
		s.end()
		late := slow(ttl / 2) // a request of the Locker may take so long
		if stop {
			late += 2 * duration // it may have been stopped in its turn
		}
		o := newOrder(late)
		o.read(journal())
		for _, fault := range append(unruly(s.stays), o.faults...) {
			t.Error(fault)
		}
		s.judge(o, func(string) time.Duration { return slow(time.Second) })
		s.report(o)
	})
}

// uproar is a crew that contends for keys, and what has become of it.
type uproar struct {
	t       *testing.T
	crew    []*member
	victims []*member // in random order
	stopped *member
	dying   *member
	dead    map[int]bool
	witness string

	over   time.Time // when those that live were told to come to rest
	gaveUp int
	waits  []wait // that ended later
	stays  []stay
}

// muster starts the processes, and returns when the storm has begun.
func muster(t *testing.T, seed uint64, o orders) *uproar {
	t.Helper()
	const processes = 16
	u := &uproar{t: t, dead: map[int]bool{}, witness: filepath.Join(t.TempDir(), "witness")}
	for i := range processes {
		o.Role, o.Witness, o.Seed = "storm", u.witness, seed+uint64(i)
		u.crew = append(u.crew, enlist(t, o))
	}
	for _, m := range u.crew {
		m.hear("ready", 20*time.Second)
	}
	for _, m := range u.crew {
		m.tell("go")
	}
	random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // It must be repeatable.
	for _, i := range random.Perm(processes) {
		u.victims = append(u.victims, u.crew[i])
	}
	return u
}

func (u *uproar) victim() *member {
	m := u.victims[0]
	u.victims = u.victims[1:]
	return m
}

// stop has a process stand still in a section until the end of the storm.
func (u *uproar) stop() {
	u.t.Helper()
	u.stopped = u.victim()
	u.stopped.tell("stop")
}

func (u *uproar) kill() {
	m := u.victim()
	u.dead[m.cmd.Process.Pid] = true
	m.kill()
}

// killHolder has a process die in its next section.
func (u *uproar) killHolder() {
	u.t.Helper()
	u.dying = u.victim()
	u.dead[u.dying.cmd.Process.Pid] = true
	u.dying.tell("die")
}

// end ends the storm when who had to die is dead, and waits until all have been in.
func (u *uproar) end() {
	u.t.Helper()
	for limit, lives := time.After(slow(20*time.Second)), true; lives; {
		select {
		case line, ok := <-u.dying.says:
			if lives = ok; ok {
				u.t.Errorf("process %d: %s", u.dying.cmd.Process.Pid, line)
			}
		case <-limit:
			u.t.Fatalf("process %d does not get in", u.dying.cmd.Process.Pid)
		}
	}
	if u.stopped != nil {
		if err := resume(u.stopped.cmd.Process); err != nil {
			u.t.Fatal(err)
		}
	}
	u.over = time.Now()
	var living []*member
	for _, m := range u.crew {
		if !u.dead[m.cmd.Process.Pid] {
			m.tell("calm")
			living = append(living, m)
		}
	}
	for _, m := range living {
		n, in := m.calm()
		u.gaveUp += n
		u.waits = append(u.waits, in...)
	}
	u.stays = readStays(u.t, u.witness)
}

// wait is one that ended after the storm.
type wait struct {
	key       string
	began, in time.Duration // since 1970
}

// calm collects the waits of a member until it is done.
func (m *member) calm() (gaveUp int, waits []wait) {
	m.t.Helper()
	limit := time.After(slow(20 * time.Second))
	for {
		select {
		case line := <-m.says:
			said, rest, _ := strings.Cut(line, " ")
			var w wait
			var err error
			switch said {
			case "in":
				_, err = fmt.Sscan(rest, &w.key, &w.began, &w.in)
				waits = append(waits, w)
			case "fault":
				m.t.Errorf("process %d: %s", m.cmd.Process.Pid, rest)
			case "done":
				if _, err = fmt.Sscan(rest, &gaveUp); err == nil {
					return gaveUp, waits
				}
			default:
				err = io.ErrUnexpectedEOF
			}
			if err != nil {
				m.t.Fatalf("process %d says %q: %v\n%s", m.cmd.Process.Pid, line, err, m.err.String())
			}
		case <-limit:
			_ = abort(m.cmd.Process) // It may have ended.
			_ = m.cmd.Wait()
			m.t.Fatalf("process %d still waits\n%s", m.cmd.Process.Pid, m.err.String())
		}
	}
}

// judge reports the waits for each key that were longer than its limit: since the storm, and the end of what the dead had left.
func (u *uproar) judge(o *order, limit func(key string) time.Duration) {
	u.t.Helper()
	type result struct {
		waits, late int
		longest     time.Duration
		worst       wait
	}
	results := map[string]*result{}
	for _, w := range u.waits {
		r := results[w.key]
		if r == nil {
			r = &result{}
			results[w.key] = r
		}
		r.waits++
		took := w.in - max(w.began, time.Duration(u.over.UnixNano()), o.freeOf(w.key, u.dead))
		if took > r.longest {
			r.longest, r.worst = took, w
		}
		if took > limit(w.key) {
			r.late++
		}
	}
	for key, r := range results {
		u.t.Logf("%q: after the storm %d waits, the longest %v", key, r.waits, r.longest)
		if r.late > 0 {
			u.t.Errorf("%q: %d of %d waiters were not in %v after the storm and the end of what the dead had left: the last one after %v. It was held meanwhile:%s",
				key, r.late, r.waits, limit(key), r.longest, o.history(key, r.worst.in-r.longest, r.worst.in, u.dead))
		}
	}
}

// report tells what has happened, and whether that was enough.
func (u *uproar) report(o *order) {
	u.t.Helper()
	u.t.Logf("%d sections, %d gave up, %d killed; %d grants: %d in turns of at most %d, %d handed off, %d of these lapsed",
		len(u.stays), u.gaveUp, len(u.dead), o.grants, o.swaps, o.longest+1, o.handOffs, o.lapses)
	if len(u.stays) < 100 || o.handOffs == 0 || o.swaps == 0 || u.gaveUp == 0 {
		u.t.Error("that was no storm")
	}
}
