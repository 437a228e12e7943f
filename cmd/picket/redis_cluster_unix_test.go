//go:build unix

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// untilEnd is a command that notes its token, and exits with 7 once the file "end" is there.
const untilEnd = `echo $PICKET_TOKEN >>tokens; echo $$ >pid; while [ ! -e end ]; do sleep 0.03; done; exit 7`

func (d directory) end() {
	d.t.Helper()
	if err := os.WriteFile(filepath.Join(d.path, "end"), nil, 0o600); err != nil {
		d.t.Fatal(err)
	}
}

// All that the command line does, by a user with the permissions in the documentation.
func TestCommandsWorkOnACluster(t *testing.T) {
	t.Parallel()
	c, d := startCluster(t, masters, nil)
	in := func(t *testing.T) directory { return directory{t: t, path: t.TempDir(), store: d.store} }
	t.Run("run", func(t *testing.T) { c.runs(in(t)) })
	t.Run("show", func(t *testing.T) { c.shows(in(t)) })
	t.Run("wait", func(t *testing.T) { c.waits(in(t)) })
	t.Run("turns", func(t *testing.T) { in(t).takeTurns(20) })
	t.Run("some nodes", func(t *testing.T) { c.findsItsNodes(in(t)) })
}

func (c *cluster) runs(d directory) {
	addrs := c.addrs()
	reordered := clusterURL(append(addrs[1:], addrs[0])...)
	for _, e := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"run", "k", "sh", "-c", "exit 7"}, 7, ""},
		{[]string{"run", "-v", "k", "true"}, 0, `released "k"; the command exited with 0`},
		{[]string{"run", "a{b}c", "true"}, 0, ""},
		{[]string{"run", "{}", "true"}, 0, ""},
		{[]string{"run", "}{", "true"}, 0, ""},
		{[]string{"run", "--max-hold", "500ms", "k", "sleep", "60"}, exitLost, "max-hold"},
		{[]string{"run", "--min-hold", "5m", "kept", "true"}, 0, ""},
		{[]string{"run", "-n", "kept", "true"}, exitBusy, `picket: key "kept" is busy: `},
		{[]string{"run", "-w", "300ms", "kept", "true"}, exitBusy, "; waited 300ms"},
		{[]string{"run", "-q", "k", "env", "PICKET_STORE=" + reordered, binary, "run", "-n", "k", "true"}, exitUsage, "it would wait for itself"},
		{[]string{"run", "-q", "k", binary, "run", "-n", "k2", "true"}, 0, ""},
	} {
		p := d.start(binary, e.args...)
		p.wantExit(e.code)
		if p.complains(e.says); e.says == "" && p.err.String() != "" {
			d.t.Errorf("picket %s says %q", strings.Join(e.args, " "), &p.err)
		}
	}
}

// shows has a lock on each master.
func (c *cluster) shows(d directory) {
	keys := c.spread()
	for _, key := range keys {
		holder := d.run(key, "sh", "-c", "echo up; exec sleep 1000")
		holder.says("up")
		defer func() {
			holder.signal(syscall.SIGTERM)
			holder.wantExit(143)
		}()
	}
	wantOut := func(args []string, want string) {
		p := d.start(binary, args...)
		p.wantExit(0)
		eventually(d.t, fmt.Sprintf("%q says %s", args, want), func() bool { return regexp.MustCompile(want).MatchString(p.out.String()) })
	}
	n := len(keys)
	wantOut([]string{"ls", "job/"}, fmt.Sprintf(`^KEY .*\n(job/.* held .*\n){%d}$`, n))
	wantOut([]string{"ls", "--json", "job/"}, fmt.Sprintf(`^(\{"key":"job/.*"state":"held".*\n){%d}$`, n))
	wantOut([]string{"__complete", "inspect", "jo"}, fmt.Sprintf(`^(job/.*\theld\n){%d}:`, n))
	for _, key := range keys {
		wantOut([]string{"ls"}, `(?m)^`+key+` `)
		wantOut([]string{"inspect", key}, `(?s)^key +`+key+`\nstate +held\n.*label +sh\n.*remaining +[0-9.]+s\n$`)
	}
}

// waits is for what the user needs beside the scripts: waiters are woken by sharded messages.
func (c *cluster) waits(d directory) {
	holder := d.run("k", "sh", "-c", "echo up; exec sleep 1000")
	holder.says("up")
	waiter := d.start(binary, "run", "k", "true")
	waiter.complains(`picket: waiting for "k": held by `)
	master := c.master("k")
	eventually(d.t, "the waiter listens at the master of its key", func() bool {
		channels, err := master.PubSubShardChannels(d.t.Context(), record("k")+"*").Result()
		return err == nil && len(channels) == 1
	})
	holder.signal(syscall.SIGTERM)
	holder.wantExit(143)
	began := time.Now()
	waiter.wantExit(0)
	if took := time.Since(began); took > 5*time.Second {
		d.t.Errorf("it took %s", took)
	}

	holder = d.run("k", "sh", "-c", "echo up; exec sleep 1000")
	holder.says("up")
	waiter = d.start(binary, "run", "k", "true")
	queued := func() int64 { return master.ZCard(d.t.Context(), record("k")+":queue").Val() }
	eventually(d.t, "the waiter queues", func() bool { return queued() == 1 })
	waiter.signal(syscall.SIGTERM)
	waiter.wantExit(143)
	if n := queued(); n != 0 {
		d.t.Errorf("%d are in the queue", n)
	}
	holder.signal(syscall.SIGTERM)
	holder.wantExit(143)
}

// findsItsNodes needs one node of the URL to answer: one that is silent does not take all the time that -n has.
func (c *cluster) findsItsNodes(d directory) {
	alive, dead := c.addrs(), fmt.Sprintf("127.0.0.1:%d", freePort(d.t))
	for name, addrs := range map[string][]string{
		"one":              alive[:1],
		"alive and dead":   {alive[0], dead},
		"dead and alive":   {dead, alive[1]},
		"silent and alive": {silentAddr(d.t), alive[2]},
	} {
		d.store = clusterURL(addrs...)
		for _, key := range c.spread() {
			p := d.run("-n", key, "true")
			if p.exited() != 0 {
				d.t.Errorf("%s: exit code %d, %q", name, p.code, &p.err)
			}
		}
	}
}

func TestRefusalsOfAClusterSayWhatToDo(t *testing.T) {
	t.Parallel()
	c, _ := startCluster(t, masters, nil, "user weak on >"+canary+" ~lock:* -@all +@connection")
	s := startRedis(t)
	m := c.master("k")
	addr := c.addrs()[slices.IndexFunc(c.nodes, func(n *redisServer) bool { return n != m })] // which says MOVED
	at := func(scheme, login string) string { return fmt.Sprintf("%s://%s%s", scheme, login, addr) }
	wantRefusals(t, map[string]refused{
		"wrong password": {at("redis+cluster", "picket:"+canary+"x@"), "the user name or the password is wrong: check the URL (WRONGPASS)", quickly},
		"no password":    {at("redis+cluster", ""), "the server wants a password: put the URL with it into PICKET_STORE", quickly},
		"no permission":  {at("redis+cluster", "weak:"+canary+"@"), "ACL SETUSER name " + aclRules(defaultPrefix), quickly},
		"no such host":   {"redis+cluster://:" + canary + "@no-such-host.invalid,no-other-host.invalid", "host no-", stated},
		"no listener":    {clusterURL(fmt.Sprintf("127.0.0.1:%d", freePort(t))), "connection refused: check that the server runs", stated},
		"no Cluster":     {clusterURL(s.addr()), "the server belongs to no Cluster: begin the URL with redis:// and name one server", quickly},
		"a node":         {at("redis", "picket:"+canary+"@"), "the server is a node of a Cluster: begin the URL with redis+cluster:// and name some of its nodes", quickly},
		"a node and a database": {
			at("redis", "picket:"+canary+"@") + "/1", "the server is a node of a Cluster: begin the URL with redis+cluster://", quickly,
		},
	})
}

func TestAClusterIsReachedByTLS(t *testing.T) {
	t.Parallel()
	c, d := startCluster(t, masters, newCertificate(t))
	for _, key := range c.spread() {
		d.run(key, "sh", "-c", "exit 7").wantExit(7)
	}
	untrusted, _, _ := strings.Cut(d.store, "?")
	wantRefusals(t, map[string]refused{
		"unknown CA": {untrusted, "certificate signed by unknown authority: check that the server speaks TLS, and name its CA with ?ca=FILE", stated},
	})
}

// GL-60: the replica has the record, so the lease goes on.
func TestJobOutlivesTheMasterOfItsKey(t *testing.T) {
	t.Parallel()
	c, d := startCluster(t, 2*masters, nil)
	job := d.run("--ttl", "10s", "k", "sh", "-c", untilEnd)
	pid := d.pid("pid")
	waiter := d.start(binary, "run", "k", "sh", "-c", "echo $PICKET_TOKEN >>tokens")
	waiter.complains("waiting for")
	c.replicated("k")
	old := c.master("k")
	c.fail(old, syscall.SIGKILL)
	c.master("k")
	c.renewed("k")
	if gone(pid) {
		t.Error("the command was ended")
	}
	d.end()
	job.wantExit(7)
	waiter.wantExit(0)
	d.tokensRise(2)
	if d.busy("k") { // dead nodes of the URL do not matter
		t.Error("the key is busy after the end")
	}
}

// GL-62
func TestJobOutlivesTheMoveOfItsSlot(t *testing.T) {
	t.Parallel()
	c, d := startCluster(t, masters, nil)
	job := d.run("--ttl", "3s", "k", "sh", "-c", untilEnd)
	d.pid("pid")
	waiter := d.start(binary, "run", "k", "sh", "-c", "echo $PICKET_TOKEN >>tokens")
	waiter.complains("waiting for")
	c.move("k", func() { c.renewed("k") })
	c.renewed("k")
	d.end()
	job.wantExit(7)
	waiter.wantExit(0)
	d.tokensRise(2)
}

// C2 on a Cluster: without a replica the slots of a master that is silent, or dead, are nobody's; other slots are as before.
func TestJobEndsWhenNobodyServesItsSlot(t *testing.T) {
	t.Parallel()
	const ttl, bound = 4 * time.Second, 5 * time.Second // the second one is for -n; 4 s are stated
	for name, sig := range map[string]syscall.Signal{"stopped": syscall.SIGSTOP, "killed": syscall.SIGKILL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, d := startCluster(t, masters, nil, "cluster-require-full-coverage no")
			keys := c.spread()
			other := d.run("--ttl", ttl.String(), keys[1], "sh", "-c", untilEnd)
			d.pid("pid")
			p := d.run("--ttl", ttl.String(), keys[0], "sh", "-c", ticks)
			leader := d.pid("leader")
			c.renewed(keys[0])
			m, stopped := c.master(keys[0]), time.Now()
			c.fail(m, sig)
			p.wantExit(exitLost)
			p.complains("is lost: unreachable")
			if !gone(leader) {
				t.Error("the command is still there")
			}
			if after := d.clock("tick").Sub(stopped); after > ttl || after < ttl/3 {
				t.Errorf("the command lived for %s, of %s", after, ttl)
			}
			c.renewed(keys[1])
			d.end()
			other.wantExit(7)

			began := time.Now()
			p = d.run("-n", keys[0], "true")
			p.wantExit(exitUnavailable)
			if took := time.Since(began); took > bound {
				t.Errorf("-n took %s", took)
			}
			if d.busy(keys[1]) {
				t.Error("another key is busy after its end")
			}
			d.start(binary, "ls").wantExit(exitUnavailable)
		})
	}
}
