//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// forwardable returns the signals that somebody may send to picket and mean the job. Left out are those that cannot be caught, that tell of picket's own
// children, pipes and sockets, and that a fault of picket itself raises.
func forwardable() []os.Signal {
	sigs := []os.Signal{
		unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGABRT, unix.SIGALRM,
		unix.SIGUSR1, unix.SIGUSR2, unix.SIGWINCH, unix.SIGIO, unix.SIGXCPU,
	}
	return append(sigs, moreSignals()...)
}

// jobControl returns the signals that are left to their default action until there is a job: until then Ctrl-Z simply stops picket.
func jobControl() []os.Signal { return []os.Signal{unix.SIGTSTP, unix.SIGCONT} }

// catchOwn keeps picket alive when it cannot write what it has to say: its reader has gone, or a file is full (ulimit -f). These signals tell of picket's own
// writing, so the job does not get them; it gets their default action back, for they are caught and not ignored.
func catchOwn() {
	for _, sig := range []os.Signal{unix.SIGPIPE, unix.SIGXFSZ} {
		if !signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
}

func signalName(sig syscall.Signal) string {
	if name := unix.SignalName(sig); name != "" {
		return name
	}
	return sig.String()
}
