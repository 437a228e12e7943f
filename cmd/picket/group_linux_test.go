package main

import (
	"syscall"
	"testing"
)

func TestKilledWrapperSendsTermToTheCommand(t *testing.T) {
	t.Parallel()
	d := newDirectory(t)
	p := d.run("k", "sh", "-c", `trap 'echo got TERM >got; exit 0' TERM; echo $$ >leader; while :; do sleep 0.05; done`)
	leader := d.pid("leader")
	p.signal(syscall.SIGKILL)
	p.exited()
	if got := d.file("got"); got != "got TERM" {
		t.Errorf("got %q", got)
	}
	eventually(t, "the command is gone and the key free", func() bool { return gone(leader) && !d.busy("k") })
}

// A member that has ended, and whose parent outside the group takes no notice, does nothing any more.
func TestZombieInTheGroupDoesNotHoldTheLock(t *testing.T) {
	t.Parallel()
	d := newDirectory(t)
	p := d.run("--close-lock", "k", "sh", "-c", `PICKET_TEST_ROLE=stubborn-parent "$TEST_BINARY" >left & until test -s left; do sleep 0.01; done; exit 3`)
	pid := d.pid("left")
	p.wantExit(3)
	if gone(pid) {
		t.Error("the parent has ended, so this shows nothing")
	}
}
