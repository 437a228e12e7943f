//go:build unix

package filestore

import (
	"errors"
	"syscall"
)

func exists(pid int) bool { return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }
