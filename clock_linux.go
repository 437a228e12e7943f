package picket

import (
	"syscall"
	"time"
	"unsafe"
)

// machineAsleep returns how long the machine has slept since it booted: CLOCK_BOOTTIME counts it, CLOCK_MONOTONIC does not (clock_gettime(2)). A thread that loses its core
// between the two readings sees too little, never too much.
func machineAsleep() time.Duration {
	const clockMonotonic, clockBoottime = 1, 7
	boot := readClock(clockBoottime)
	return boot - readClock(clockMonotonic)
}

func readClock(id uintptr) time.Duration {
	var ts syscall.Timespec
	if _, _, e := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, id, uintptr(unsafe.Pointer(&ts)), 0); e != 0 {
		return 0
	}
	return time.Duration(ts.Nano())
}
