//go:build unix

package main

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// terminal is the controlling terminal: one process group has its foreground. A nil terminal takes all calls and does nothing.
type terminal struct {
	fd     int
	own    int  // our process group
	wanted bool // the job shall have the foreground whenever we could have it
	moved  bool // the child was told to take it before its start
}

// openTerminal returns nil if picket has no terminal. The job gets the foreground at once if it seems to be what the user talks to. In a pipeline the other
// commands are in our group and may need the terminal as much: there the job gets it when it first asks (SIGTTIN, SIGTTOU).
func openTerminal(s streams) *terminal {
	fd, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	t := &terminal{fd: fd, own: unix.Getpgrp()}
	_, err = unix.IoctlGetInt(int(s.in.Fd()), unix.TIOCGPGRP)
	t.wanted = err == nil && !isPipe(s.out)
	return t
}

func isPipe(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&(os.ModeNamedPipe|os.ModeSocket) != 0
}

// foreground returns the group in the foreground, 0 if there is none.
func (t *terminal) foreground() int {
	if t == nil {
		return 0
	}
	pgrp, err := unix.IoctlGetInt(t.fd, unix.TIOCGPGRP)
	if err != nil {
		return 0
	}
	return pgrp
}

func (t *terminal) ours() bool { return t != nil && t.foreground() == t.own }

// lend makes the child take the foreground before it executes the command, so that its first read finds it there.
func (t *terminal) lend(attr *syscall.SysProcAttr) {
	if t.ours() && t.wanted {
		attr.Foreground, attr.Ctty = true, t.fd
		t.moved = true
	}
}

// give puts the job in the foreground if we are there.
func (t *terminal) give(g group) {
	if t.ours() {
		t.set(int(g))
	}
}

// takeBack puts us in the foreground if the job is there. If anybody else is, say the shell that runs us in the background, it is not ours to take.
func (t *terminal) takeBack(g group) {
	if t != nil && t.foreground() == int(g) {
		t.set(t.own)
	}
}

// undo takes the foreground back from a child that has not come to its start.
func (t *terminal) undo() {
	if t != nil && t.moved {
		t.set(t.own)
	}
}

func (t *terminal) set(pgrp int) {
	_ = unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, pgrp) // a terminal that hung up, or a group that ended, needs none
}

func (t *terminal) close() { _ = unix.Close(t.fd) }

// stoppable reports whether somebody could continue picket after a stop. The kernel takes no care of that with SIGSTOP, which has to be used because Go cannot
// give SIGTSTP its default action back. A shell with job control has put its job in a group of its own, in its own session.
func stoppable() bool {
	session, err := unix.Getsid(0)
	if err != nil || session == unix.Getpgrp() {
		return false
	}
	parents, err := unix.Getsid(unix.Getppid())
	return err == nil && parents == session
}
