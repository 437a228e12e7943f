//go:build unix

package main

import (
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestLockIsHeldUntilTheGroupIsEmpty(t *testing.T) {
	t.Parallel()
	d := newDirectory(t)
	p := d.run("k", "sh", "-c", `sleep 1000 & echo $! >child; exit 4`)
	child := d.pid("child")
	eventually(t, "the leader is gone", func() bool {
		pgid, err := syscall.Getpgid(child)
		return err == nil && gone(pgid)
	})
	if !d.busy("k") {
		t.Error("the key is free while a process of the group lives")
	}
	p.signal(syscall.SIGTERM) // is still passed on
	p.wantExit(4)
	if !gone(child) || d.busy("k") {
		t.Errorf("gone %t", gone(child))
	}
}

// C6: a process that leaves the group is not followed. The inherited descriptor keeps the lock for it.
func TestDaemonKeepsTheLockThroughTheInheritedDescriptor(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		flags []string
		busy  bool
	}{{nil, true}, {[]string{"--close-lock"}, false}} {
		t.Run(strings.Join(c.flags, " "), func(t *testing.T) {
			t.Parallel()
			d := newDirectory(t)
			p := d.run(append(c.flags, "k", "sh", "-c", `PICKET_TEST_ROLE=daemon "$TEST_BINARY" >pid & until test -s pid; do sleep 0.01; done`)...)
			pid := d.pid("pid")
			p.wantExit(0)
			if gone(pid) {
				t.Fatal("the daemon was ended")
			}
			if busy := d.busy("k"); busy != c.busy {
				t.Errorf("busy %t", busy)
			}
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the key is free", func() bool { return !d.busy("k") })
		})
	}
}

// GL-76, and the first of Done-when: kill -9 of the wrapper frees the lock only when the job is gone.
func TestKilledWrapperLeavesTheLockToTheJob(t *testing.T) {
	t.Parallel()
	d := newDirectory(t)
	p := d.run("k", "sh", "-c", `trap "" TERM; echo $$ >leader; while :; do sleep 0.05; done`)
	leader := d.pid("leader")
	p.signal(syscall.SIGKILL)
	p.exited()
	if gone(leader) || !d.busy("k") {
		t.Errorf("gone %t, and the key is free", gone(leader))
	}
	if err := syscall.Kill(leader, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the key is free", func() bool { return !d.busy("k") })
}

// The number 3 may be a descriptor that the command expects.
func TestInheritedDescriptorsOfTheUserStayWhereTheyAre(t *testing.T) {
	t.Parallel()
	d := newDirectory(t)
	p := d.start("sh", "-c", `exec 3>three; exec "$0" run -q k -- sh -c 'echo to three >&3'`, binary)
	p.wantExit(0)
	if line := d.file("three"); line != "to three" {
		t.Errorf("got %q", line)
	}
}

func TestTwoAtOnceExcludeEachOther(t *testing.T) {
	t.Parallel()
	d := newDirectory(t)
	var all []*process
	for range 6 {
		all = append(all, d.run("k", "sh", "-c", `mkdir inside || exit 9; echo $PICKET_TOKEN >>tokens; sleep 0.02; rmdir inside`))
	}
	for _, p := range all {
		p.wantExit(0)
	}
	d.tokensRise(len(all))
}

func TestWaiterStartsSoonAfterTheRelease(t *testing.T) {
	t.Parallel()
	d := newDirectory(t)
	holder := d.run("k", "sh", "-c", "echo $$ >pid; exec sleep 1000")
	d.pid("pid")
	waiter := d.start(binary, "run", "k", "true")
	waiter.complains("waiting for")
	holder.signal(syscall.SIGTERM)
	holder.wantExit(143)
	began := time.Now()
	waiter.wantExit(0)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
}
