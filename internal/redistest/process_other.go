//go:build !linux

package redistest

import "syscall"

// dieWithParent asks for nothing: only Linux kills a child with its parent, so here a test that is killed itself leaves its servers behind.
func dieWithParent() *syscall.SysProcAttr { return nil }
