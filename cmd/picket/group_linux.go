package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// endWithParent lets the command end when picket is killed. SIGTERM rather than SIGKILL: it reaches the leader only, and a leader that may clean up takes its
// own children with it, where a killed one leaves them behind.
func endWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = unix.SIGTERM }

// adoptOrphans makes picket the parent of what the job leaves behind, as process 1 of a container may take no notice of orphans that end, and a group with an
// unnoticed member never gets empty. If the kernel refuses, process 1 has to do it.
func adoptOrphans() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// works reports whether a member of the group has not ended. What cannot be read counts as at work.
func (g group) works() bool {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(files) == 0 {
		return true
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended meanwhile
		}
		// pid (name) state ppid pgrp, where name may hold spaces and brackets (proc_pid_stat(5))
		fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
		if len(fields) < 3 {
			continue
		}
		if pgrp, err := strconv.Atoi(string(fields[2])); err == nil && pgrp == int(g) && fields[0][0] != 'Z' && fields[0][0] != 'X' {
			return true
		}
	}
	return false
}
