package redisstore

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/picket-go/picket"
	"github.com/picket-go/picket/internal/bound"
)

const (
	// linger is how long a channel, and then the connection, is kept when nobody listens any more: a key in demand would else be subscribed for each hand-over.
	linger = time.Second
	// reopenAfter is the pause between two attempts to open a connection that was lost; waiters poll meanwhile.
	reopenAfter = 250 * time.Millisecond
	// confirmWindow is a little more than a hand-off may go unconfirmed.
	confirmWindow = time.Second + 5*time.Millisecond
)

type signal = struct{}

// listener hears the wake-ups of this Store's waiters over one connection, which exists only while somebody waits. What it does not hear, polls find.
type listener struct {
	store  *Store
	ctx    context.Context //nolint:containedctx // of the listener's goroutine, from start to close
	cancel context.CancelFunc
	kick   chan signal // something changed for the goroutine

	mu       sync.Mutex
	closed   bool
	running  bool
	watches  map[string]*watch   // by claim id
	channels map[string]*channel // by name
}

// watch is one claim that listens.
type watch struct {
	channel *channel
	later   *time.Timer // tells it, when a hand-off to the waiter before it should have been confirmed
	wake    chan signal // one place: a wake-up is a hint, and two hints say no more than one
}

// channel is a Redis channel that claims listen to.
type channel struct {
	name    string
	watches int
	idle    time.Time   // since when nobody listens
	asked   bool        // a subscription was sent on this connection
	heard   bool        // and confirmed
	before  bool        // was confirmed on an earlier connection: wake-ups may have been missed
	ready   chan signal // closed when confirmed or refused
	err     error       // why it was refused
}

func (l *listener) start(s *Store) {
	l.store = s
	l.ctx, l.cancel = context.WithCancel(bound.None())
	l.kick = make(chan signal, 1)
	l.watches, l.channels = map[string]*watch{}, map[string]*channel{}
}

// close ends the listening; every wake channel stays open and silent.
func (l *listener) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.cancel()
}

// hears reports whether a wake-up for the claim would be heard.
func (l *listener) hears(id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.watches[id]
	return w != nil && w.channel.heard
}

// Watch returns, when the subscription is confirmed, a channel that gets a value when the claim was handed the lock, and stop, which ends the listening. A claim has one
// watch: the last one asked for. If the server does not let us subscribe, it returns ErrRefused at once.
func (s *Store) Watch(ctx context.Context, c picket.Claim) (<-chan struct{}, func(), error) {
	if err := named(c); err != nil {
		return nil, nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, nil, unsentError{err}
	}
	w, err := s.listen.add(c.ID, s.channel(c.Key))
	if err != nil {
		return nil, nil, err
	}
	stop := func() { s.listen.remove(c.ID, w) }
	select {
	case <-w.channel.ready:
	case <-ctx.Done():
		stop()
		return nil, nil, s.failed(ctx, subject{"watch", c.Key}, ctx.Err())
	case <-s.listen.ctx.Done():
		stop()
		return nil, nil, errClosed
	}
	if err := s.listen.refused(w.channel); err != nil {
		stop()
		return nil, nil, s.failed(ctx, subject{"watch", c.Key}, err)
	}
	return w.wake, stop, nil
}

func (l *listener) add(id, name string) (*watch, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, errClosed
	}
	ch := l.channels[name]
	if ch == nil {
		ch = &channel{name: name, ready: make(chan signal)}
		l.channels[name] = ch
	}
	ch.watches++
	if old := l.watches[id]; old != nil {
		l.detach(old)
	}
	w := &watch{channel: ch, wake: make(chan signal, 1)}
	l.watches[id] = w
	if !l.running {
		if err := l.store.crew.enter(); err != nil {
			return nil, err
		}
		l.running = true
		go l.run()
	}
	l.stir()
	return w, nil
}

func (l *listener) remove(id string, w *watch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.watches[id] == w {
		delete(l.watches, id)
		l.detach(w)
	}
}

// detach is called with mu held, as are stir, lose and confirm.
func (l *listener) detach(w *watch) {
	if w.later != nil {
		w.later.Stop()
	}
	w.channel.watches--
	if w.channel.watches == 0 {
		w.channel.idle = time.Now()
	}
}

func (l *listener) stir() {
	select {
	case l.kick <- signal{}:
	default:
	}
}

func (l *listener) refused(ch *channel) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return ch.err
}

// deliver wakes the claim that the message names, or, if it says so, when the hand-off to the waiter before it should have been confirmed.
func (l *listener) deliver(message string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	id, later, _ := strings.Cut(message, " ")
	w := l.watches[id]
	switch {
	case w == nil:
	case later == "":
		w.tell()
	case w.later == nil:
		w.later = time.AfterFunc(confirmWindow, w.tell)
	default:
		w.later.Reset(confirmWindow)
	}
}

func (w *watch) tell() {
	select {
	case w.wake <- signal{}:
	default:
	}
}

// confirm notes that the server has subscribed us.
func (l *listener) confirm(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ch := l.channels[name]
	if ch == nil || ch.heard {
		return
	}
	ch.heard = true
	if ch.before {
		for _, w := range l.watches {
			if w.channel == ch {
				w.tell()
			}
		}
	}
	select {
	case <-ch.ready:
	default:
		close(ch.ready)
	}
}

// refuse ends the channels whose subscription is under way: the server said no to one of them, and does not say which. Who waits for one of them polls.
func (l *listener) refuse(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, ch := range l.channels {
		if ch.asked && !ch.heard {
			delete(l.channels, name)
			ch.err = err
			select {
			case <-ch.ready:
			default:
				close(ch.ready)
			}
		}
	}
}

// lose notes that the connection is gone: nothing is heard until the next one.
func (l *listener) lose() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, ch := range l.channels {
		ch.before = ch.before || ch.heard
		ch.asked, ch.heard = false, false
	}
}

// run keeps a connection open while there are channels.
func (l *listener) run() {
	defer l.store.crew.work.Done()
	for {
		c := newConnection(l)
		err := c.serve()
		l.lose()
		if l.ctx.Err() != nil || errors.Is(err, errIdle) && l.finish() {
			return
		}
		if errors.Is(err, errIdle) {
			continue
		}
		select {
		case <-time.After(reopenAfter):
		case <-l.ctx.Done():
			return
		}
	}
}

// finish ends the goroutine unless somebody has come.
func (l *listener) finish() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.channels) > 0 {
		return false
	}
	l.running = false
	return true
}

// changes returns the channels to subscribe now and those to leave; done says that there has been nothing to listen to for long enough.
func (l *listener) changes(now time.Time) (join, part []string, done bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, ch := range l.channels {
		switch {
		case ch.watches == 0 && now.Sub(ch.idle) >= linger:
			delete(l.channels, name)
			if ch.asked {
				part = append(part, name)
			}
		case !ch.asked && ch.watches > 0:
			ch.asked = true
			join = append(join, name)
		}
	}
	return join, part, len(l.channels) == 0
}
