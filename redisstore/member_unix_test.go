//go:build unix

package redisstore_test

import (
	"os"
	"syscall"
)

// pause stops a process (SIGSTOP) until resume.
func pause(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

func resume(p *os.Process) error { return p.Signal(syscall.SIGCONT) }

// abort has a process print the stacks of its goroutines, and end (SIGQUIT).
func abort(p *os.Process) error { return p.Signal(syscall.SIGQUIT) }
