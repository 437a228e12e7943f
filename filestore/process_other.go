//go:build !linux

package filestore

func pidNamespace() string { return "" }

// startOf does not know: a process that got the pid of a holder that has crashed is taken for it, but only by Inspect.
func startOf(int) (ticks uint64, ok bool) { return 0, true }
