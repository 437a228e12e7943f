//go:build unix

package main

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// group is the process group of the job, which has its leader's number. The number is not given to another process while a member lives.
type group int

func (g group) send(sig syscall.Signal) {
	_ = unix.Kill(-int(g), sig) // an error means that nobody is left to get it, or that a member changed its user
}

// alive reports whether a process of the group is left. A thorough look does not count those that have ended and whose parent, outside the group, takes no notice.
func (g group) alive(thorough bool) bool {
	if errors.Is(unix.Kill(-int(g), 0), unix.ESRCH) {
		return false
	}
	return !thorough || g.works()
}
