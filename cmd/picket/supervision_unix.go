//go:build unix

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	pollShortest = time.Millisecond
	pollLongest  = 250 * time.Millisecond
	// survivorBound is how long picket waits for a group that got SIGKILL: a process in an uninterruptible wait may take for ever.
	survivorBound = 5 * time.Second
)

// supervision is what a running job has on Unix.
type supervision struct {
	group  group
	tty    *terminal           // nil without one
	status *syscall.WaitStatus // of the leader; nil while it lives
	lost   error
	killed bool
	passed bool // an INT or QUIT came to picket alone, or to its group, and was passed on

	killAt, giveUp <-chan time.Time
	poll           *time.Timer // armed while the group may live on without its leader
	pause          time.Duration
}

// run starts the command and returns when the last process of its group is gone. An error says that it did not start.
func (j *job) run() (outcome, error) {
	// Linux sends the parent-death signal when the thread that forked ends, not the process (prctl(2)).
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	adoptOrphans()
	signal.Notify(j.signals.children, unix.SIGCHLD)
	j.signals.add(jobControl())
	if j.tty = openTerminal(j.streams); j.tty != nil {
		defer j.tty.close()
	}
	pid, err := j.start()
	// From here on picket forks no more, so no child inherits this. It lets a background process set the terminal's foreground group, and write to a
	// terminal that has tostop set.
	signal.Ignore(unix.SIGTTOU)
	if err != nil {
		j.tty.undo()
		return outcome{}, err
	}
	j.group = group(pid)
	j.tell("started %s as process group %d", printable(j.argv[0]), pid)
	survived := j.supervise()
	keys := j.tty.foreground() == int(j.group) // the job alone got what was typed
	j.tty.takeBack(j.group)
	out := j.outcome(survived)
	if j.status != nil && j.status.Signaled() {
		out.end = j.tty.death(j.status.Signal(), keys && !j.passed)
	}
	return out, nil
}

func (j *job) start() (pid int, err error) {
	if j.inherit != nil {
		f, err := j.inherit()
		switch {
		case errors.Is(err, errors.ErrUnsupported):
		case err != nil:
			return 0, exitf(exitUnavailable, "the lock's file cannot be passed to the command: %s; with --close-lock it need not", err)
		case f != nil:
			fd, err := inheritable(f)
			if err != nil {
				return 0, exitf(exitUnavailable, "the lock's file cannot be passed to the command: %s; with --close-lock it need not", err)
			}
			defer func() { _ = unix.Close(fd) }()
		}
	}
	attr := &os.ProcAttr{
		Env:   j.env,
		Files: []*os.File{j.streams.in, j.streams.out, j.streams.err},
		Sys:   &syscall.SysProcAttr{Setpgid: true},
	}
	j.tty.lend(attr.Sys)
	endWithParent(attr.Sys)
	process, err := os.StartProcess(j.path, j.argv, attr)
	if errors.Is(err, unix.ENOEXEC) { // a script without #!: a shell, and execvp(3), give it to sh
		if sh, missing := exec.LookPath("sh"); missing == nil {
			process, err = os.StartProcess(sh, append([]string{"sh", j.path}, j.argv[1:]...), attr)
		}
	}
	if err != nil {
		return 0, startFailure(j.argv[0], err)
	}
	pid = process.Pid
	return pid, process.Release() // reap waits for it, and for the orphans of its group
}

// inheritable returns a copy of f that a child has under the same number. ExtraFiles would put it at 3, where the command may expect a descriptor of its own.
func inheritable(f *os.File) (int, error) {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD, 10) // shells leave 0 to 9 to their users
	if errors.Is(err, unix.EINVAL) {                   // the limit of open files is lower
		fd, err = unix.FcntlInt(f.Fd(), unix.F_DUPFD, 3)
	}
	return fd, err
}

// supervise returns when the group is gone, or true when SIGKILL could not end it.
func (j *job) supervise() (survived bool) {
	lost := j.lease.Done()
	j.poll = time.NewTimer(0)
	<-j.poll.C
	defer j.poll.Stop()
	for {
		select {
		case sig := <-j.signals.queue:
			j.forward(sig)
		case <-j.signals.children:
			j.reap()
		case <-j.poll.C:
		case <-lost:
			lost = nil
			j.lose()
		case <-j.killAt:
			j.kill()
		case <-j.giveUp:
			return true
		}
		if j.gone() {
			return false
		}
	}
}

// gone reports whether leader and group have ended; if only the leader has, it arms the next look.
func (j *job) gone() bool {
	if j.status == nil {
		return false
	}
	if !j.group.alive(j.pause >= pollLongest) {
		return true
	}
	if j.pause == 0 {
		j.pause = pollShortest
		j.tell("%s; waiting for the rest of process group %d", wordsOf(*j.status), int(j.group))
	}
	j.poll.Reset(j.pause)
	j.pause = min(2*j.pause, pollLongest)
	return false
}

// forward hands a signal to the group. Signals of the terminal are no doubles: it sends them to the foreground group only, which is the job's or ours.
func (j *job) forward(sig os.Signal) {
	number, ok := sig.(syscall.Signal)
	if !ok {
		return
	}
	if number == unix.SIGCONT {
		j.resume()
		return
	}
	j.passed = j.passed || number == unix.SIGINT || number == unix.SIGQUIT
	j.tell("passing on %s", signalName(number))
	j.group.send(number)
}

// reap collects all children that have ended: the leader, and orphans of the group that came to us (as process 1, or as their subreaper).
func (j *job) reap() {
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, syscall.WNOHANG|syscall.WUNTRACED, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil || pid <= 0:
			return
		case pid != int(j.group):
		case ws.Stopped():
			j.stopped(ws.StopSignal())
		default:
			j.status = &ws
		}
	}
}

// stopped follows the leader into a stop: the terminal's shell shall see its own child, picket, stopped.
func (j *job) stopped(sig syscall.Signal) {
	j.tell("the command was stopped by %s", signalName(sig))
	switch {
	case j.lost != nil:
		j.group.send(unix.SIGCONT) // its SIGTERM waits for that
	case j.tty == nil:
	case (sig == unix.SIGTTIN || sig == unix.SIGTTOU) && j.tty.ours():
		j.tty.wanted = true
		j.tty.give(j.group)
		j.group.send(unix.SIGCONT) // it wants the terminal, and can have it
	case !stoppable():
		j.resume()
	default:
		j.tty.takeBack(j.group)
		_ = unix.Kill(0, unix.SIGSTOP) // the whole group: a shell's job may be a pipeline or a script
	}
}

// resume follows a SIGCONT, unless the lease did not outlast the stop.
func (j *job) resume() {
	if j.lease.Check() != nil {
		j.lose()
		return
	}
	if j.tty != nil && j.tty.wanted {
		j.tty.give(j.group)
	}
	j.group.send(unix.SIGCONT)
}

// lose ends the group in time. It may be called twice.
func (j *job) lose() {
	if j.lost != nil {
		return
	}
	j.lost = j.lease.Check()
	after := killAfter(j.lost, j.grace, j.horizon.late(time.Now()))
	if after <= 0 {
		j.kill()
		return
	}
	j.group.send(unix.SIGTERM)
	j.group.send(unix.SIGCONT) // a stopped process takes no SIGTERM
	j.killAt = time.After(after)
}

func (j *job) kill() {
	j.killed = true
	j.group.send(unix.SIGKILL)
	j.giveUp = time.After(survivorBound)
}

func (j *job) outcome(survived bool) outcome {
	out := outcome{lost: j.lost}
	if j.status != nil {
		out.code, out.ended = codeOf(*j.status), wordsOf(*j.status)
	}
	switch {
	case survived:
		out.ended = fmt.Sprintf("process group %d got SIGKILL and is still there", int(j.group))
	case j.killed:
		out.ended = "its process group was ended with SIGKILL"
	}
	return out
}

func codeOf(ws syscall.WaitStatus) int {
	if ws.Signaled() {
		return exitSignal + int(ws.Signal())
	}
	return ws.ExitStatus()
}

func wordsOf(ws syscall.WaitStatus) string {
	if ws.Signaled() {
		return "the command was ended by " + signalName(ws.Signal())
	}
	return fmt.Sprintf("the command exited with %d", ws.ExitStatus())
}
