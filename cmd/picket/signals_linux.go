package main

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// moreSignals are those that only Linux has. Real-time signals begin at 35: the C library and Go's runtime keep the ones below.
func moreSignals() []os.Signal {
	sigs := []os.Signal{unix.SIGPWR}
	for n := range 30 {
		sigs = append(sigs, syscall.Signal(35+n))
	}
	return sigs
}
