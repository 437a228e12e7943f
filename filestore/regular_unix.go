//go:build unix

package filestore

import "syscall"

// direct opens what is at a path itself, and at once.
const direct = syscall.O_NONBLOCK | syscall.O_NOFOLLOW
