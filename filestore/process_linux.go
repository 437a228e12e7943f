package filestore

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
)

// pidNamespace names the namespace in which our pids are pids: pid_namespaces(7).
func pidNamespace() string {
	name, _ := os.Readlink("/proc/self/ns/pid")
	return name
}

// startOf returns when pid started, 0 if that is not shown to us. It is not ok if the process has ended: a zombie has closed its files.
// The fields are those of proc_pid_stat(5): the name in parentheses may hold anything, so they are counted from its end.
func startOf(pid int) (ticks uint64, ok bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, true
	}
	const state, starttime = 0, 19 // fields 3 and 22
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) <= starttime {
		return 0, true
	}
	ticks, _ = strconv.ParseUint(string(fields[starttime]), 10, 64)
	ended := bytes.ContainsAny(fields[state], "ZX")
	return ticks, !ended
}
