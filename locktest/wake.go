package locktest

import (
	"context"
	"errors"
	"time"

	"github.com/picket-go/picket"
)

// A wake-up is a hint that may be lost, so nothing here demands one.
var waking = theme{"wake", []check{
	{"after a release the watcher is woken or its next poll is granted", 0, wokenOrFound},
	{"stop may be called twice and frees the watch", 0, stopTwice},
	{"watching with an ended ctx returns its error", 0, watchEnded},
}}

func (e *env) waker() picket.Waker {
	w, ok := e.store.(picket.Waker)
	if !ok {
		e.Skip("the store is no picket.Waker")
	}
	return w
}

// wokenOrFound covers W2: the poll bound holds without a wake-up.
func wokenOrFound(e *env) {
	waker := e.waker()
	holder := e.granted(e.claim(e.key())).Claim
	w := e.waiter(holder.Key)
	e.busyBy(w, holder)
	wake, stop, err := waker.Watch(e.Context(), w)
	if err != nil {
		e.Fatalf("Watch = %v", err)
	}
	defer stop()
	e.on(e.conf.New(e.T)).release(holder)
	select {
	case <-wake:
	case <-time.After(e.conf.TTL):
	}
	e.eventually(w, late)
}

func stopTwice(e *env) {
	waker := e.waker()
	holder := e.granted(e.claim(e.key())).Claim
	w := e.waiter(holder.Key)
	e.busyBy(w, holder)
	for range 3 {
		_, stop, err := waker.Watch(e.Context(), w)
		if err != nil {
			e.Fatalf("Watch = %v", err)
		}
		stop()
		stop()
	}
	e.within(window)
	e.release(holder)
	e.granted(w)
	e.release(w)
}

func watchEnded(e *env) {
	waker := e.waker()
	ctx, cancel := context.WithCancel(e.Context())
	cancel()
	if _, stop, err := waker.Watch(ctx, e.waiter(e.key())); !errors.Is(err, context.Canceled) {
		if err == nil {
			stop()
		}
		e.Fatalf("Watch with an ended ctx = %v, want context.Canceled", err)
	}
}
