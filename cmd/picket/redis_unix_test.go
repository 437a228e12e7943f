//go:build unix

package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// ticks is a command that takes no SIGTERM and writes the time again and again, so that the file tells when it ended.
const ticks = `trap 'echo got TERM >term' TERM; echo $$ >leader; while :; do date +%s%N >tick.new; mv tick.new tick; sleep 0.03; done`

// C2, GL-20, GL-21: whatever keeps the server from answering, no process of the job lives when the server may give the key on.
func TestJobIsDeadBeforeASilentServerGivesTheKeyOn(t *testing.T) {
	t.Parallel()
	const ttl = 4 * time.Second
	for name, sig := range map[string]syscall.Signal{"stopped": syscall.SIGSTOP, "killed": syscall.SIGKILL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, d := newRedis(t)
			p := d.run("--ttl", ttl.String(), "k", "sh", "-c", `sh -c 'trap "" TERM; echo $$ >child; while :; do sleep 0.05; done' & `+ticks)
			leader, child := d.pid("leader"), d.pid("child")
			eventually(t, "a renewal", func() bool { return s.left("k") < ttl*5/6 })
			eventually(t, "a renewal", func() bool { return s.left("k") > ttl*5/6 })
			stopped := time.Now() // the last renewal was before
			s.signal(sig)
			p.wantExit(exitLost)
			p.complains(`picket: lease on "k" with token `)
			p.complains("is lost: unreachable; its process group was ended with SIGKILL")
			if !gone(leader) || !gone(child) {
				t.Errorf("gone: leader %t, child %t", gone(leader), gone(child))
			}
			if after := d.clock("tick").Sub(stopped); after > ttl || after < ttl/3 {
				t.Errorf("the command lived for %s, of %s", after, ttl)
			}
			if line := d.file("term"); line != "got TERM" {
				t.Errorf("SIGTERM did not come first: %q", line)
			}
		})
	}
}

// C2: an operator deletes the key, or takes it away; the next renewal finds out.
func TestRecordTakenAwayEndsTheGroup(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		take func(s *redisServer) error
		says string
	}{
		"deleted":  {func(s *redisServer) error { return s.Del(s.ctx(), record("k")).Err() }, "is lost: deleted; the command was ended by SIGTERM"},
		"flushed":  {func(s *redisServer) error { return s.FlushAll(s.ctx()).Err() }, "is lost: deleted; the command was ended by SIGTERM"},
		"replaced": {func(s *redisServer) error { return s.Set(s.ctx(), record("k"), "mine", 0).Err() }, "is lost: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, d := newRedis(t)
			p := d.run("--ttl", "1500ms", "k", "sh", "-c", `echo $$ >leader; exec sleep 1000`)
			leader := d.pid("leader")
			if err := c.take(s); err != nil {
				t.Fatal(err)
			}
			p.wantExit(exitLost)
			p.complains(c.says)
			if !gone(leader) {
				t.Error("the command is still there")
			}
		})
	}
}

// GL-76: nobody is left to renew. The command gets SIGTERM where the system can do that, and no descriptor keeps the key for it.
func TestKilledWrapperFreesTheKeyAfterTheTTL(t *testing.T) {
	t.Parallel()
	const ttl, margin = 3 * time.Second, 3 * time.Second
	_, d := newRedis(t)
	p := d.run("--ttl", ttl.String(), "k", "sh", "-c", `trap "" TERM; echo $$ >leader; while :; do sleep 0.05; done`)
	leader := d.pid("leader")
	waiter := d.run("k", "true")
	p.signal(syscall.SIGKILL)
	p.exited()
	killed := time.Now()
	waiter.wantExit(0)
	if took := time.Since(killed); took > ttl+margin {
		t.Errorf("the next one entered after %s", took)
	}
	if gone(leader) {
		t.Error("a command that ignores SIGTERM was ended by somebody; docs/redis.md says that it lives on")
	}
}

// W4 of the command line: an outage is 69 and never 75.
func TestNoServerIsUnavailableWithinItsBound(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	stopped := startRedis(t)
	stopped.signal(syscall.SIGSTOP)
	const slack = time.Second // of this machine
	for name, url := range map[string]string{
		"refused":         fmt.Sprintf("redis://127.0.0.1:%d/0", port),
		"silent":          stopped.url(),
		"Cluster refused": fmt.Sprintf("redis+cluster://127.0.0.1:%d,127.0.0.1:%d", port, freePort(t)),
		"Cluster silent":  clusterURL(silentAddr(t), silentAddr(t), silentAddr(t), silentAddr(t)),
	} {
		for flags, bound := range map[string]time.Duration{"-n": 4 * time.Second, "-w 1": 2 * time.Second, "--ttl 1s": 3 * time.Second} {
			t.Run(name+" "+flags, func(t *testing.T) {
				t.Parallel()
				d := newDirectory(t)
				d.store = url
				began := time.Now()
				p := d.run(append(strings.Fields(flags), "k", "touch", "ran")...)
				p.wantExit(exitUnavailable)
				if took := time.Since(began); took > bound+slack {
					t.Errorf("it took %s", took)
				}
				if _, err := os.Stat(d.path + "/ran"); err == nil {
					t.Error("the command was run")
				}
			})
		}
		t.Run(name+" inspect and ls", func(t *testing.T) {
			t.Parallel()
			d := newDirectory(t)
			d.store = url
			for _, args := range [][]string{{"inspect", "k"}, {"ls"}} {
				p := d.start(binary, args...)
				p.wantExit(exitUnavailable)
				p.complains("picket: store redis")
			}
		})
	}
}

func TestWaiterStartsSoonAfterTheReleaseOnRedis(t *testing.T) {
	t.Parallel()
	s, d := newRedis(t)
	holder := d.run("k", "sh", "-c", "echo $$ >pid; exec sleep 1000")
	d.pid("pid")
	waiter := d.start(binary, "run", "k", "true")
	waiter.complains(`picket: waiting for "k": held by `)
	waiter.complains("more unless renewed\n")
	eventually(t, "the waiter listens", func() bool {
		channels, err := s.PubSubChannels(s.ctx(), "lock:*").Result()
		return err == nil && len(channels) == 1
	})
	holder.signal(syscall.SIGTERM)
	holder.wantExit(143)
	began := time.Now()
	waiter.wantExit(0)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
}

// C4: the place in the queue is given back, and the next one need not wait for a dead process to be noticed.
func TestSignalWhileWaitingLeavesNothingOnRedis(t *testing.T) {
	t.Parallel()
	s, d := newRedis(t)
	holder := d.run("k", "sh", "-c", "echo $$ >pid; exec sleep 1000")
	d.pid("pid")
	waiter := d.start(binary, "run", "k", "true")
	queued := func() int64 { return s.ZCard(s.ctx(), record("k")+":queue").Val() }
	eventually(t, "the waiter queues", func() bool { return queued() == 1 })
	waiter.signal(syscall.SIGTERM)
	waiter.wantExit(143)
	if n := queued(); n != 0 {
		t.Errorf("%d are in the queue", n)
	}
	holder.signal(syscall.SIGTERM)
	holder.wantExit(143)
	if d.busy("k") {
		t.Error("the key is busy after the end")
	}
}

func TestFiftyWaitersRunOneAfterTheOther(t *testing.T) {
	t.Parallel()
	_, d := newRedis(t)
	d.takeTurns(50)
}

// takeTurns runs n jobs on one key at once, which must not meet.
func (d directory) takeTurns(n int) {
	d.t.Helper()
	var all []*process
	for range n {
		all = append(all, d.run("k", "sh", "-c", `mkdir inside || exit 9; echo $PICKET_TOKEN >>tokens; sleep 0.01; rmdir inside`))
	}
	for _, p := range all {
		p.wantExit(0)
	}
	d.tokensRise(len(all))
}

func TestExitCodesAndMessagesOnRedis(t *testing.T) {
	t.Parallel()
	s, d := newRedis(t)
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"run", "k", "sh", "-c", "exit 7"}, 7, ""},
		{[]string{"run", "k", "no-such-command"}, exitNotFound, "command not found"},
		{[]string{"run", "-v", "k", "true"}, 0, `released "k"; the command exited with 0`},
		{[]string{"run", "--max-hold", "500ms", "k", "sleep", "60"}, exitLost, "max-hold"},
		{[]string{"run", "--min-hold", "5m", "kept", "true"}, 0, ""},
		{[]string{"run", "-n", "kept", "true"}, exitBusy, `picket: key "kept" is busy: `},
		{[]string{"run", "-q", "k", binary, "run", "-n", "k", "true"}, exitUsage, "it would wait for itself"},
		{[]string{"run", "-q", "k", binary, "run", "-n", "--redis-prefix", "lock:x", "k", "true"}, 0, ""},
	} {
		p := d.start(binary, c.args...)
		p.wantExit(c.code)
		if p.complains(c.says); c.says == "" && p.err.String() != "" {
			t.Errorf("picket %s says %q", strings.Join(c.args, " "), &p.err)
		}
	}
	if left := s.left("kept"); left < 4*time.Minute || left > 5*time.Minute {
		t.Errorf("the key is kept for %s", left)
	}
}

func TestInspectAndListShowWhoHoldsOnRedis(t *testing.T) {
	t.Parallel()
	s, d := newRedis(t)
	d.run("job/1", "sh", "-c", `echo $PICKET_HOLDER >id; exec sleep 1000`)
	id := d.file("id")
	for _, c := range []struct{ args, want string }{
		{"inspect job/1", `^key +job/1\nstate +held\nhost +.+\npid +[0-9]+\nlabel +sh\nsince +20.*Z\ntoken +[0-9]+\nttl +30s\nremaining +[0-9.]+s\n$`},
		{"inspect --json job/1", `^{"key":"job/1","state":"held","holder":{"host":".+","pid":[0-9]+,"since":"20.*Z","label":"sh"},"token":[0-9]+,"ttl_ms":30000,"remaining_ms":[0-9]+,"waiters":0}\n$`},
		{"inspect free", `^key +free\nstate +free\n$`},
		{"ls", `^KEY .*\njob/1 +held +.+ [0-9.]+s +[0-9]+ +sh\n$`},
		{"ls other", `^$`},
		{"__complete inspect j", `^job/1\theld\n`},
		{"run -n job/1 true", `^$`},
		{"--redis-prefix other: inspect job/1", `^$`}, // the user may not look there
	} {
		p := d.start(binary, strings.Fields(c.args)...)
		p.exited()
		eventually(t, c.args+" says "+c.want, func() bool { return regexp.MustCompile(c.want).MatchString(p.out.String()) })
		if strings.Contains(p.out.String()+p.err.String(), id) {
			t.Errorf("%s shows the id of the claim", c.args)
		}
	}
	// What docs/redis.md shows.
	text, err := s.Get(s.ctx(), record("job/1")).Result()
	if want := `^[A-Z2-7]{26} token=[0-9]+ since=[0-9]+ ttl=30000 max=30000 delay=0 state=held pid=[0-9]+ host=\S+ label=sh$`; err != nil || !regexp.MustCompile(want).MatchString(text) {
		t.Errorf("GET says %q, %v", text, err)
	}
}

// L12, GL-20: nothing renews while both are stopped; the terminal's user comes back too late. The job starts no process: a shell that waits in vfork(2) does not
// stop.
func TestCtrlZForLongerThanTheTTLLosesTheLock(t *testing.T) {
	t.Parallel()
	_, d := newRedis(t)
	s := newSessionIn(d)
	s.types(`$P run -q --ttl 1s k -- sh -c 'echo up; exec sleep 1000'; echo code $?.` + "\n")
	s.wait("up")
	s.types(ctrlZ)
	s.wait("code ") // of the stop
	s.wait("ready> ")
	d.run("-w", "15", "k", "true").wantExit(0) // after the TTL somebody else has it
	s.types("fg; echo code $?.\n")
	s.wait("is lost: ")
	s.wait("code 76.")
}
