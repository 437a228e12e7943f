//go:build !unix

package filestore

import "os"

// exists opens the process, which on Windows fails if there is none.
func exists(pid int) bool {
	p, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	_ = p.Release()
	return true
}
