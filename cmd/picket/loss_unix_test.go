//go:build unix

package main

import (
	"os"
	"syscall"
	"testing"
	"time"
)

// GL-71, GL-21: "&" puts the sleep in the background of a shell that waits; both are of the group.
func TestLostLockEndsTheWholeGroup(t *testing.T) {
	t.Parallel()
	d := newDirectory(t)
	p := d.run("--max-hold", "2s", "k", "sh", "-c", `sleep 1000 & echo $! >child; echo $$ >leader; wait`)
	leader, child := d.pid("leader"), d.pid("child")
	p.wantExit(exitLost)
	if !gone(leader) || !gone(child) {
		t.Errorf("gone: leader %t, child %t", gone(leader), gone(child))
	}
	p.complains(`picket: lease on "k" with token `)
	p.complains(" is lost: max-hold; ")
	if d.busy("k") {
		t.Error("the key is busy after the end")
	}
}

// C2: SIGTERM at the hold's end less the grace, SIGKILL in time to be dead before it.
func TestGroupThatIgnoresTermIsKilledBeforeTheLockEnds(t *testing.T) {
	t.Parallel()
	const maxHold = 4 * time.Second
	d := newDirectory(t)
	p := d.run("--max-hold", maxHold.String(), "--grace", "1.8s", "k", "sh", "-c", `
		trap 'date +%s%N >term' TERM
		date +%s%N >start
		sh -c 'trap "" TERM; echo $$ >child; while :; do sleep 0.05; done' &
		echo $$ >leader
		while :; do sleep 0.05; done`)
	leader, child := d.pid("leader"), d.pid("child")
	p.wantExit(exitLost)
	ended := time.Now()
	start, term := d.clock("start"), d.clock("term")
	if after := term.Sub(start); after > maxHold-1500*time.Millisecond || after < maxHold/2 {
		t.Errorf("SIGTERM came %s after the start, of %s", after, maxHold)
	}
	if after := ended.Sub(start); after > maxHold || after < maxHold-1800*time.Millisecond {
		t.Errorf("the group was dead %s after the start, of %s", after, maxHold)
	}
	if !gone(leader) || !gone(child) {
		t.Errorf("gone: leader %t, child %t", gone(leader), gone(child))
	}
	p.complains("SIGKILL")
}

// clock reads a file that `date +%s%N` wrote.
func (d directory) clock(name string) time.Time {
	d.t.Helper()
	line := d.file(name)
	if len(line) < 19 {
		d.t.Skipf("date has no nanoseconds here: %q", line)
	}
	var ns int64
	for _, c := range line {
		ns = ns*10 + int64(c-'0')
	}
	return time.Unix(0, ns)
}

// C2: somebody removed the lock's file; the next renewal finds out.
func TestDeletedLockEndsTheGroup(t *testing.T) {
	t.Parallel()
	d := newDirectory(t)
	p := d.run("--ttl", "600ms", "k", "sh", "-c", `echo $$ >leader; exec sleep 1000`)
	leader := d.pid("leader")
	if err := os.Remove(d.path + "/locks/k.lock"); err != nil {
		t.Fatal(err)
	}
	p.wantExit(exitLost)
	p.complains(" is lost: deleted; the command was ended by SIGTERM")
	if !gone(leader) {
		t.Error("the command is still there")
	}
}

// L12: a stopped process takes no SIGTERM until it is continued, whether it stopped before it or at it.
func TestStoppedGroupIsEndedToo(t *testing.T) {
	t.Parallel()
	d := newDirectory(t)
	p := d.run("--max-hold", "2s", "--grace", "600ms", "k", "sh", "-c", `trap 'kill -STOP $$; echo took TERM; exit 1' TERM; echo $$ >leader; while :; do sleep 0.05; done`)
	leader := d.pid("leader")
	if err := syscall.Kill(-leader, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	p.wantExit(exitLost)
	p.says("took TERM")
	if !gone(leader) {
		t.Error("the command is still there")
	}
}

func TestLossFoundAtReleaseIsExitCode76(t *testing.T) {
	t.Parallel()
	d := newDirectory(t)
	p := d.run("k", "sh", "-c", `rm "$D/locks/k.lock"`)
	p.wantExit(exitLost)
	p.complains("is lost: deleted; the command exited with 0")
}

// The wrapper is stopped, and the hold ends: on SIGCONT no time is left for SIGTERM.
func TestWrapperThatSleptThroughTheEndKillsAtOnce(t *testing.T) {
	t.Parallel()
	d := newDirectory(t)
	p := d.run("--max-hold", "4s", "--grace", "1.4s", "k", "sh", "-c", `trap "" TERM; echo $$ >leader; while :; do sleep 0.05; done`)
	leader := d.pid("leader")
	p.signal(syscall.SIGSTOP)
	time.Sleep(4200 * time.Millisecond) // past the hold: nothing can be waited for while picket is stopped
	if gone(leader) {
		t.Fatal("the command ended without picket")
	}
	began := time.Now()
	p.signal(syscall.SIGCONT)
	p.wantExit(exitLost)
	if took := time.Since(began); took > 700*time.Millisecond {
		t.Errorf("it took %s", took)
	}
	p.complains("max-hold")
	if !gone(leader) {
		t.Error("the command is still there")
	}
}
