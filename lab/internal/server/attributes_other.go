//go:build !linux

package server

import "syscall"

// attributes are none: only Linux kills a child with its parent, so elsewhere a benchmark that is killed itself leaves its server behind.
func attributes() *syscall.SysProcAttr { return nil }
