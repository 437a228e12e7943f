//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// C1, GL-72: leader and child each write what they got; a signal of the wrapper's alone would leave the second line out.
func TestSignalsReachTheWholeGroupAndTheLockIsFreeAfterwards(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM} {
		name := signalName(sig)[3:]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDirectory(t)
			// A shell leaves "wait" at once for a trap. Its background jobs ignore INT and QUIT for good, so there the leader speaks for both.
			script := `
				trap 'echo leader got it; wait $c; exit 7' %[1]s
				sh -c 'trap "echo child got it; exit 0" %[1]s; echo $$ >pid; while :; do sleep 0.05; done' & c=$!
				wait $c`
			if sig == syscall.SIGINT || sig == syscall.SIGQUIT {
				script = `trap 'echo leader got it; echo child got it; exit 7' %s; echo $$ >pid; while :; do sleep 0.05; done`
			}
			p := d.run("k", "--", "sh", "-c", fmt.Sprintf(script, name))
			pid := d.pid("pid")
			p.signal(sig)
			p.wantExit(7)
			p.says("leader got it\n")
			p.says("child got it\n")
			if !gone(pid) {
				t.Errorf("process %d of the group is still there", pid)
			}
		})
	}
}

// C1: the lock is free when picket has ended, and the code tells of the signal.
func TestSignalThatEndsTheCommandIsExitCode128PlusItsNumber(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1} {
		t.Run(signalName(sig), func(t *testing.T) {
			t.Parallel()
			d := newDirectory(t)
			p := d.run("k", "--", "sh", "-c", "ulimit -c 0; echo $$ >pid; exec sleep 1000")
			pid := d.pid("pid")
			p.signal(sig)
			p.wantExit(128 + int(sig))
			if !gone(pid) {
				t.Errorf("process %d is still there", pid)
			}
			if d.busy("k") {
				t.Error("the key is busy after the end")
			}
		})
	}
}

// C4, GL-40.
func TestSignalWhileWaitingEndsTheWaitingAtOnce(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM} {
		t.Run(signalName(sig), func(t *testing.T) {
			t.Parallel()
			d := newDirectory(t)
			holder := d.run("k", "--", "sh", "-c", "echo $$ >pid; exec sleep 1000")
			d.pid("pid")
			waiter := d.start(binary, "run", "k", "--", "sh", "-c", "echo ran >ran")
			waiter.complains(`waiting for "k": held by `)
			began := time.Now()
			waiter.signal(syscall.SIGUSR1) // no job is there to get it
			waiter.signal(sig)
			waiter.wantExit(128 + int(sig))
			if took := time.Since(began); took > 2*time.Second {
				t.Errorf("it took %s", took)
			}
			waiter.complains(signalName(sig) + ` ended the waiting for "k"`)
			holder.signal(syscall.SIGTERM)
			holder.wantExit(143)
			if d.busy("k") {
				t.Error("the waiter left something behind")
			}
			if _, err := os.Stat(d.path + "/ran"); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the waiter's command ran: %v", err)
			}
		})
	}
}

func TestSignalBetweenGrantAndStartIsKeptForTheJob(t *testing.T) {
	t.Parallel()
	s := listenTo(1)
	ctx, quit := s.interrupts(t.Context())
	quit()
	s.queue <- syscall.SIGTERM
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("cause %v", err)
	}
	select {
	case sig := <-s.queue:
		if sig != syscall.SIGTERM {
			t.Errorf("got %s", sig)
		}
	default:
		t.Error("the signal is lost")
	}
}

func TestSignalIgnoredAtTheStartStaysIgnored(t *testing.T) {
	t.Parallel()
	d := newDirectory(t)
	p := d.start("sh", "-c", `trap "" HUP; exec "$0" run -q k -- sh -c 'trap "exit 6" USR1; kill -HUP $$; echo $$ >pid; while :; do sleep 0.05; done'`, binary)
	d.pid("pid")
	p.signal(syscall.SIGHUP)
	p.signal(syscall.SIGUSR1) // has the larger number, so it comes behind
	p.wantExit(6)
}

// C4: the open of a FIFO that nobody writes hangs as one on a disk that does not answer does.
func TestSignalEndsAStartThatHangsInTheKernel(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		t.Run(signalName(sig), func(t *testing.T) {
			t.Parallel()
			d := newDirectory(t)
			if err := syscall.Mkfifo(d.path+"/fifo", 0o600); err != nil {
				t.Fatal(err)
			}
			p := d.start(binary, "run", "--store-file", "fifo", "k", "--", "true")
			hangs(t, p)
			began := time.Now()
			p.signal(sig)
			p.wantExit(128 + int(sig))
			if took := time.Since(began); took > 3*time.Second {
				t.Errorf("it took %s", took)
			}
			p.complains(signalName(sig) + ` ended the waiting for "k"`)
		})
	}
}

func TestSignalDuringAnUncontendedStartReachesTheJob(t *testing.T) {
	t.Parallel()
	d := newDirectory(t)
	if err := syscall.Mkfifo(d.path+"/fifo", 0o600); err != nil {
		t.Fatal(err)
	}
	p := d.start(binary, "run", "-q", "--store-file", "fifo", "k", "--", "sleep", "1000")
	hangs(t, p)
	p.signal(syscall.SIGUSR1)
	if err := os.WriteFile(d.path+"/fifo", []byte("file:locks\n"), 0); err != nil {
		t.Fatal(err)
	}
	p.wantExit(128 + int(syscall.SIGUSR1))
}

func TestSignalsForTheJobAreDroppedByWhoWaits(t *testing.T) {
	t.Parallel()
	for _, waits := range []bool{false, true} {
		s := listenTo(4)
		_, quit := s.interrupts(t.Context())
		s.waiting.Store(waits)
		s.queue <- syscall.SIGUSR1
		for len(s.queue) > 0 {
			runtime.Gosched()
		}
		quit()
		if got := len(s.queue); (got == 0) != waits {
			t.Errorf("waiting %t: %d signals are left for the job", waits, got)
		}
	}
}

// listenTo is listen without real signals.
func listenTo(n int) *signals { return &signals{queue: make(chan os.Signal, n)} }

// hangs gives picket the time to come to the FIFO, which shows nowhere.
func hangs(t *testing.T, p *process) {
	t.Helper()
	select {
	case <-p.done:
		t.Fatalf("it has ended: %s", &p.err)
	case <-time.After(500 * time.Millisecond): // a real process must be given time
	}
}
