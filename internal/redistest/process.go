package redistest

import (
	"os/exec"
	"runtime"
	"sync/atomic"
)

// process is a running child.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when the child is gone

	stopped atomic.Bool // by SIGSTOP
}

func startProcess(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, done: make(chan struct{})}
	cmd.SysProcAttr = dieWithParent()
	started := make(chan error)
	go func() {
		// The kernel's "parent" is the thread that forked (prctl(2), PR_SET_PDEATHSIG), so that thread must live as long as the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // How it ended is in its output.
			close(p.done)
		}
	}()
	return p, <-started
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill() // It fails only when the child is gone already.
	<-p.done
}

func (p *process) gone() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}
