//go:build unix

package main

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// daemon leaves its group and session, says its pid, and lives until the test ends it.
func daemon() int {
	if _, err := syscall.Setsid(); err != nil {
		return 2
	}
	fmt.Println(os.Getpid())
	time.Sleep(time.Minute)
	return 0
}

// stubbornParent is a daemon that leaves a child behind in its group, and takes no notice when that ends.
func stubbornParent() int {
	if err := exec.Command("true").Start(); err != nil {
		return 1
	}
	return daemon()
}
