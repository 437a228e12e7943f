//go:build unix

package main

import (
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// death returns what ends picket as a key of the terminal would: a shell ends its script or loop only if its child died of the signal, and a script
// only if it got the signal too. So it goes to our whole group if the terminal sent it to the job's alone. It is nil if sig is not of a key, or picket is not
// in the foreground.
func (t *terminal) death(sig syscall.Signal, whole bool) func() {
	if sig != unix.SIGINT && sig != unix.SIGQUIT || !t.ours() {
		return nil
	}
	return func() { dieOf(sig, whole) }
}

// waitingDeath is the death of who waits for the lock: the terminal sent the signal to our group.
func waitingDeath(s streams, number int) func() {
	t := openTerminal(s)
	if t == nil {
		return nil
	}
	defer t.close()
	return t.death(syscall.Signal(number), false)
}

// deathBound is how long the signal may take to come back. A debugger may keep it.
const deathBound = time.Second

func dieOf(sig syscall.Signal, whole bool) {
	target, shellTarget := os.Getpid(), "$$"
	if whole {
		target, shellTarget = 0, "0"
	}
	if sig == unix.SIGQUIT {
		// Go answers it with a dump and code 2, and cannot be told otherwise; execve(2) gives it the default action back.
		_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}) // nobody wants the core of a shell
		if sh, err := exec.LookPath("sh"); err == nil {
			_ = unix.Exec(sh, []string{"sh", "-c", "kill -QUIT " + shellTarget}, os.Environ()) // it returns if it failed
		}
		return
	}
	signal.Reset(sig)
	if unix.Kill(target, sig) == nil {
		time.Sleep(deathBound)
	}
}
