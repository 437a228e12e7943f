package redisstore_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/picket-go/picket/internal/redistest"
)

// TestStressOnACluster is TestStress on a Cluster whose masters have a key each. While 16 processes contend for them, the slot of the first one moves to another master, key by
// key, and the master of the second one is killed: before that, meanwhile or afterwards, and in half of the rounds when its replica has not been in touch for a while. In half of
// the rounds leases live on when the replica is promoted, in the others a process is stopped.
//
// Tokens rise from section to section on every key, and no two are inside at once, but for who was let in by the server that died and who was let in by the promoted one (issue 5).
// First in, first out on the keys whose master lives, as the journals of both their servers say. Whoever waits when all is over is in soon.
func TestStressOnACluster(t *testing.T) {
	stressRounds(t, func(t *testing.T, seed uint64, round int) {
		const pause = 120 * time.Millisecond
		d := plan(t, seed)
		if (round+1)%4 >= 2 {
			d.cut = min(time.Duration(round)*20*time.Millisecond, 100*time.Millisecond)
		}
		var journals []func() []executed
		for _, server := range d.cluster.Servers() {
			journals = append(journals, monitorNode(t, server))
		}
		long := round%2 == 1
		ttl := time.Second
		if long {
			ttl = 3 * time.Second
		}
		s := muster(t, seed, orders{Addr: strings.Join(d.cluster.Options().Addrs, ","), Keys: d.keys(), TTL: ttl})
		began := time.Now()
		time.Sleep(2 * pause)
		if !long {
			s.stop()
		}
		for i, act := range [][]func(){
			{d.begin, d.step, d.step, d.step, d.finish, d.kill},
			{d.begin, d.step, d.step, d.kill, d.step, d.finish},
			{d.kill, d.begin, d.step, d.step, d.step, d.finish},
		}[round%3] {
			switch i {
			case 0, 2, 4:
				s.kill()
			case 3:
				s.killHolder()
			}
			time.Sleep(pause)
			act()
		}
		s.end()
		var all [][]executed
		for _, j := range journals {
			all = append(all, j())
		}
		o := newOrder(slow(ttl/2) + s.over.Sub(began))
		o.killed, o.died = d.killed, time.Duration(d.died.UnixNano())
		o.read(merged(all...))
		t.Logf("%v; it offered the key to %d waiters that it did not know to have left", d, o.ghosts)
		markPromoted(s.stays, d.killed, d.died)
		for _, fault := range append(unruly(s.stays), o.faults...) {
			t.Error(fault)
		}
		s.judge(o, func(key string) time.Duration {
			limit := slow(time.Second)
			if key != d.spared { // a hand-off may go unheard while its waiter does not listen yet where the key is now
				limit += confirmWindow
			}
			if key == d.killed && d.cut > 0 { // the promoted server may know a lease that was given back
				limit += max(0, d.died.Add(ttl).Sub(s.over))
			}
			return limit
		})
		s.report(o)
	})
}

// monitorNode is monitor for a node of a Cluster.
func monitorNode(t *testing.T, server *redistest.Server) func() []executed {
	t.Helper()
	id, err := server.Client(t).Do(t.Context(), "cluster", "myid").Text()
	if err != nil {
		t.Fatal(err)
	}
	read := monitor(t, server)
	return func() []executed {
		t.Helper()
		journal := read()
		for i := range journal {
			journal[i].node = id
		}
		return journal
	}
}

// disaster is what befalls a Cluster.
type disaster struct {
	t       *testing.T
	cluster *redistest.Cluster
	random  *rand.Rand

	moved  string // the key whose slot moves
	killed string // the one whose master is killed
	spared string
	cut    time.Duration // how long before that the replica was out of touch

	migration      *redistest.Migration
	moves          []string // which key of how many
	died, promoted time.Time
}

// plan starts a Cluster, and finds a key for each of its masters.
func plan(t *testing.T, seed uint64) *disaster {
	t.Helper()
	d := &disaster{t: t, cluster: redistest.StartCluster(t, redistest.ClusterConfig{}), random: rand.New(rand.NewPCG(seed, 1))} //nolint:gosec // It must be repeatable.
	masters := d.cluster.Masters()
	for i, n := range d.random.Perm(len(masters)) {
		key := []*string{&d.moved, &d.killed, &d.spared}[i]
		for letter := 'a'; *key == ""; letter++ {
			if d.cluster.Master(recordOf(string(letter))) == masters[n] {
				*key = string(letter)
			}
		}
	}
	return d
}

// keys are all three. Half of the callers want the first one.
func (d *disaster) keys() []string {
	keys := []string{d.moved, d.killed, d.spared}
	d.random.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	return keys
}

// begin has the slot move, to the server that was promoted if there is one, when somebody waits for the key: else there is little to move.
func (d *disaster) begin() {
	d.t.Helper()
	source := d.cluster.Master(recordOf(d.moved)).Client(d.t)
	eventually(time.Second/2, func() bool { return source.ZCard(d.t.Context(), recordOf(d.moved)+":queue").Val() >= 6 })
	to := d.spared
	if !d.promoted.IsZero() {
		to = d.killed
	}
	d.migration = d.cluster.Move(recordOf(d.moved), d.cluster.Master(recordOf(to)))
}

// step moves one of its keys.
func (d *disaster) step() {
	keys := d.migration.Keys()
	if len(keys) == 0 {
		return
	}
	key := keys[d.random.IntN(len(keys))]
	d.migration.MoveKeys(key)
	d.moves = append(d.moves, fmt.Sprintf("%s of %d", key, len(keys)))
}

func (d *disaster) finish() { d.migration.Finish() }

// kill waits until a replica has taken over.
func (d *disaster) kill() {
	d.t.Helper()
	master := d.cluster.Master(recordOf(d.killed))
	if d.cut > 0 {
		cutOff(d.t, d.cluster, master)
		time.Sleep(d.cut)
	}
	master.Kill()
	d.died = time.Now()
	d.cluster.WaitPromoted(master, recordOf(d.killed))
	d.promoted = time.Now()
	if d.migration == nil {
		return
	}
	target := d.migration.Target().Client(d.t) // it may be the last to hear of it
	if !eventually(slow(5*time.Second), func() bool {
		return strings.Contains(target.ClusterInfo(d.t.Context()).Val(), "cluster_state:ok")
	}) {
		d.t.Fatal("the target of the migration is down")
	}
}

// String tells what has happened.
func (d *disaster) String() string {
	return fmt.Sprintf("the slot of %q was moved: %s; the master of %q was killed, its replica out of touch for %v before, and promoted after %v",
		d.moved, strings.Join(d.moves, ", "), d.killed, d.cut, d.promoted.Sub(d.died))
}

// cutOff has the replicas of a master not log in any more.
func cutOff(t testing.TB, cluster *redistest.Cluster, master *redistest.Server) {
	t.Helper()
	for _, replica := range cluster.Replicas(master) {
		if err := replica.Client(t).ConfigSet(t.Context(), "masterauth", "bogus").Err(); err != nil {
			t.Fatal(err)
		}
	}
	if err := master.Client(t).Do(t.Context(), "client", "kill", "type", "replica").Err(); err != nil {
		t.Fatal(err)
	}
}
