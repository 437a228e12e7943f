package main

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"sync/atomic"
	"syscall"
)

// signals are those that picket gets for the job. They queue from before the lock is asked for, so that none is lost between grant and start.
type signals struct {
	queue    chan os.Signal
	children chan os.Signal // one pending wake-up is enough, so its buffer of one loses nothing
	waiting  atomic.Bool    // for a busy key: signals for the job are dropped
}

func listen() *signals {
	s := &signals{queue: make(chan os.Signal, 64), children: make(chan os.Signal, 1)}
	s.add(forwardable())
	catchOwn()
	return s
}

// add leaves alone what was ignored when picket was started: nohup, and the background jobs of a shell script, count on that.
func (s *signals) add(sigs []os.Signal) {
	signal.Notify(s.queue, slices.DeleteFunc(sigs, signal.Ignored)...)
}

// interrupted is the cause of a context that a signal ended.
type interrupted struct {
	number int
	name   string
}

func (i *interrupted) Error() string { return i.name }

// interrupts returns a context that TERM, INT, HUP and QUIT end. Other signals are put back by quit for the job, which starts at once if the key is free; who
// waits for a busy key drops them. After quit the signals stay in the queue.
func (s *signals) interrupts(ctx context.Context) (_ context.Context, quit func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	leave, left := make(chan struct{}), make(chan struct{})
	var kept []os.Signal
	go func() {
		defer close(left)
		for {
			select {
			case sig := <-s.queue:
				switch sig {
				case syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT:
					number, _ := sig.(syscall.Signal)
					cancel(&interrupted{int(number), signalName(number)})
					return
				}
				if len(kept) < cap(s.queue) {
					kept = append(kept, sig)
				}
			case <-leave:
				return
			}
		}
	}()
	return ctx, func() {
		close(leave)
		<-left
		cancel(nil)
		if !s.waiting.Load() {
			s.putBack(kept)
		}
	}
}

func (s *signals) putBack(kept []os.Signal) {
	for _, sig := range kept {
		select {
		case s.queue <- sig:
		default: // what came meanwhile fills the queue
			return
		}
	}
}
