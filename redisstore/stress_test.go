package redisstore_test

import (
	"fmt"
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

// TestStress has 16 processes contend for three keys of one server: random holds, waits that are cancelled or limited, tries, kill -9 of four, one of them a holder, and in
// every second round one that is stopped in a section for longer than its TTL.
//
// No two are inside at once and tokens rise from section to section: a witness says so that is not the lock. First in, first out within the bound of DESIGN 3.6: the
// server's own journal says so. And whoever waits when the storm ends is in within a second of that, or of the end of what the dead have left (Q1, GL-38, GL-40, GL-43).
func TestStress(t *testing.T) {
	rounds := 2
	if s := os.Getenv(stressVariable); s != "" {
		var err error
		if rounds, err = strconv.Atoi(s); err != nil || rounds < 1 {
			t.Fatalf("%s=%q: want a number of rounds", stressVariable, s)
		}
	}
	for i := range rounds {
		t.Run(fmt.Sprint("round ", i+1), func(t *testing.T) { stress(t, rand.Uint64(), i%2 == 1) })
	}
}

func stress(t *testing.T, seed uint64, stop bool) {
	const (
		processes = 16
		ttl       = time.Second
		duration  = 1200 * time.Millisecond // longer than the TTL, so that who is stopped has lost its lease when it goes on
	)
	keys := []string{"a", "b", "c"}
	server := redistest.Start(t)
	journal := monitor(t, server)
	witness := filepath.Join(t.TempDir(), "witness")
	random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // It must be repeatable.
	t.Logf("seed %d", seed)
	crew := make([]*member, processes)
	for i := range crew {
		crew[i] = enlist(t, orders{Role: "storm", Addr: server.Addr(), Keys: keys, TTL: ttl, Witness: witness, Seed: seed + uint64(i)})
	}
	for _, m := range crew {
		m.hear("ready", 20*time.Second)
	}
	for _, m := range crew {
		m.tell("go")
	}
	dead := map[int]bool{}
	victims := random.Perm(processes)
	sleeper, holder := crew[victims[0]], crew[victims[1]]
	if stop {
		sleeper.tell("stop")
	}
	for _, i := range victims[2:5] {
		time.Sleep(duration / 3)
		dead[crew[i].cmd.Process.Pid] = true
		crew[i].kill()
	}
	dead[holder.cmd.Process.Pid] = true
	holder.tell("die")
	for range holder.says { // until it is dead
	}
	if err := resume(sleeper.cmd.Process); err != nil {
		t.Fatal(err)
	}
	over := time.Now()
	gaveUp, waits := 0, []wait{}
	for _, m := range crew {
		if !dead[m.cmd.Process.Pid] {
			m.tell("calm")
		}
	}
	for _, m := range crew {
		if !dead[m.cmd.Process.Pid] {
			n, in := m.calm()
			gaveUp += n
			waits = append(waits, in...)
		}
	}
	late := slow(ttl / 2) // a request of the Locker may take so long
	if stop {
		late += 2 * duration // it may have been stopped in its turn
	}
	o := newOrder(late)
	o.read(journal())
	stays := readStays(t, witness)
	for _, fault := range append(unruly(stays), o.faults...) {
		t.Error(fault)
	}
	worst := judge(t, waits, over, o, dead)
	t.Logf("%d sections, %d gave up, %d killed; %d grants: %d in turns of at most %d, %d handed off, %d of these lapsed; after the storm %d waits, the longest %v",
		len(stays), gaveUp, len(dead), o.grants, o.swaps, o.longest+1, o.handOffs, o.lapses, len(waits), worst)
	if len(stays) < 100 || o.handOffs == 0 || o.swaps == 0 || gaveUp == 0 {
		t.Error("that was no storm")
	}
}

// wait is one that ended after the storm.
type wait struct {
	key       string
	began, in time.Duration // since 1970
}

// calm collects the waits of a member until it is done.
func (m *member) calm() (gaveUp int, waits []wait) {
	m.t.Helper()
	limit := time.After(20 * time.Second)
	for {
		select {
		case line, ok := <-m.says:
			var w wait
			if _, err := fmt.Sscan(strings.TrimPrefix(line, "done"), &gaveUp); ok && err == nil {
				return gaveUp, waits
			}
			if _, err := fmt.Sscanf(line, "in %s %d %d", &w.key, &w.began, &w.in); err != nil {
				m.t.Fatalf("process %d says %q: %v\n%s", m.cmd.Process.Pid, line, err, m.err.String())
			}
			waits = append(waits, w)
		case <-limit:
			_ = abort(m.cmd.Process) // It may have ended.
			_ = m.cmd.Wait()
			m.t.Fatalf("process %d still waits\n%s", m.cmd.Process.Pid, m.err.String())
		}
	}
}

// judge returns the longest of the waits, and reports those that were too long.
func judge(t *testing.T, waits []wait, over time.Time, o *order, dead map[int]bool) (longest time.Duration) {
	t.Helper()
	late := 0
	var worst wait
	for _, w := range waits {
		took := w.in - max(w.began, time.Duration(over.UnixNano()), o.freeOf(w.key, dead))
		if took > longest {
			longest, worst = took, w
		}
		if took > slow(time.Second) {
			late++
		}
	}
	if late > 0 {
		t.Errorf("%d of %d waiters were not in a second after the storm and the end of what the dead had left: the last one after %v.\nIts key meanwhile:%s",
			late, len(waits), longest, o.history(worst.key, worst.in-longest, worst.in, dead))
	}
	return longest
}
