package main

import (
	"os"
	"time"

	"github.com/picket-go/picket"
)

// job is one run of the command: it lives from the start of the first process to the end of the last one of its group.
type job struct {
	path      string
	argv, env []string
	inherit   func() (*os.File, error) // the lock's descriptor for the child; nil if it shall not have it
	streams   streams
	lease     *picket.Lease
	horizon   *horizon
	grace     time.Duration
	signals   *signals
	tell      func(format string, args ...any) // for --verbose

	supervision
}

// outcome is how a job ended.
type outcome struct {
	code  int
	ended string // in words
	lost  error  // why the lease ended under the job; nil if it did not
	end   func() // as in exitError
}
