package server

import "syscall"

// attributes put the server in a group of its own, so that Ctrl-C leaves it up until its clients have left, and have the kernel kill it with this process.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
