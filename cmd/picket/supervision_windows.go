package main

import (
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/windows"
)

// supervision has no state between calls on Windows.
type supervision struct{}

// run starts the command and returns when it has ended. An error says that it did not start.
func (j *job) run() (outcome, error) {
	attr := &os.ProcAttr{
		Env:   j.env,
		Files: []*os.File{j.streams.in, j.streams.out, j.streams.err},
		Sys:   &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP},
	}
	process, err := os.StartProcess(j.path, j.argv, attr)
	if err != nil {
		return outcome{}, startFailure(j.argv[0], err)
	}
	j.tell("started %s as process %d", printable(j.argv[0]), process.Pid)
	ended := make(chan outcome, 1)
	go func() {
		state, err := process.Wait()
		if err != nil {
			ended <- outcome{code: exitFailed, ended: fmt.Sprintf("the command's end is unknown: %s", err)}
			return
		}
		ended <- outcome{code: state.ExitCode(), ended: fmt.Sprintf("the command exited with %d", state.ExitCode())}
	}()
	return j.supervise(process, ended), nil
}

func (j *job) supervise(process *os.Process, ended <-chan outcome) outcome {
	over := j.lease.Done()
	var (
		lost error
		kill <-chan time.Time
	)
	for {
		select {
		case out := <-ended:
			out.lost = lost
			return out
		case <-j.signals.queue:
			interrupt(process)
		case <-over:
			over, lost = nil, j.lease.Check()
			interrupt(process)
			kill = time.After(killAfter(lost, j.grace, j.horizon.late(time.Now())))
		case <-kill:
			_ = process.Kill() // an error means that it has ended
		}
	}
}

// interrupt sends Ctrl-Break, the only event that reaches a process group; one without a console gets nothing and is killed when its time is over.
func interrupt(process *os.Process) {
	_ = windows.GenerateConsoleCtrlEvent(windows.CTRL_BREAK_EVENT, uint32(process.Pid))
}
