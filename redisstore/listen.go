package redisstore

import (
	"context"
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

// listener hears the wake-ups of this Store's waiters, over one connection to each server that publishes them, which exists only while somebody waits. What it does not hear,
// polls find.
type listener struct {
	store  *Store
	ctx    context.Context //nolint:containedctx // of the listener's goroutines, from start to close
	cancel context.CancelFunc

	mu          sync.Mutex
	closed      bool
	classic     bool                  // on a Cluster: shard channels are refused
	subscribers map[*node]*subscriber // one for each server that was listened to
	watches     map[string]*watch     // by claim id
	channels    map[string]*channel   // by name
}

// watch is one claim that listens.
type watch struct {
	channel *channel
	later   *time.Timer // tells it, when a hand-off to the waiter before it should have been confirmed
	wake    chan signal // one place: a wake-up is a hint, and two hints say no more than one
}

// channel is a Redis channel that claims listen to.
type channel struct {
	record  string // of the lock
	process string // as the scripts know this Store
	name    string
	sharded bool // published in the node of its slot only
	from    *subscriber

	watches int
	idle    time.Time   // since when nobody listens
	asked   bool        // a subscription was sent on this connection
	heard   bool        // and confirmed
	before  bool        // was confirmed on an earlier connection: wake-ups may have been missed
	lost    bool        // on a Cluster: its node has to be found again
	to      *redirect   // where it was said to be; nil: nowhere
	moved   time.Time   // when it last went to another node
	ready   chan signal // closed when confirmed or refused
	err     error       // why it was refused
}

func (l *listener) start(s *Store) {
	l.store = s
	l.ctx, l.cancel = context.WithCancel(bound.None())
	l.subscribers, l.watches, l.channels = map[*node]*subscriber{}, map[string]*watch{}, map[string]*channel{}
}

// close ends the listening; every wake channel stays open and silent.
func (l *listener) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.cancel()
}

// hears returns the process to publish to for the claim, or "" if a wake-up would not be heard.
func (l *listener) hears(id string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.watches[id]
	if w == nil || !w.channel.heard {
		return ""
	}
	if at := w.channel.from.at; at != "" {
		return w.channel.process + "@" + at
	}
	return w.channel.process
}

// Watch returns, when the subscription is confirmed, a channel that gets a value when the claim was handed the lock, and stop, which ends the listening. A claim has one
// watch: the last one asked for. If the server does not let us subscribe, it returns ErrRefused at once.
func (s *Store) Watch(ctx context.Context, c picket.Claim) (<-chan struct{}, func(), error) {
	if err := named(c); err != nil {
		return nil, nil, err
	}
	wake, stop, again, err := s.watch(ctx, c)
	if again {
		wake, stop, _, err = s.watch(ctx, c)
	}
	if err != nil {
		return nil, nil, s.failed(ctx, subject{"watch", c.Key}, err)
	}
	return wake, stop, nil
}

// watch is one attempt; again says that another way of listening is left.
func (s *Store) watch(ctx context.Context, c picket.Claim) (wake <-chan struct{}, stop func(), again bool, err error) {
	record, n := s.record(c.Key), s.home
	if n == nil {
		if n, err = s.cluster.at(ctx, record); err != nil {
			return nil, nil, false, err
		}
	}
	w, err := s.listen.add(c.ID, record, n)
	if err != nil {
		return nil, nil, false, err
	}
	stop = func() { s.listen.remove(c.ID, w) }
	if err := s.listen.confirmed(ctx, w.channel); err != nil {
		stop()
		return nil, nil, false, err
	}
	if again, err = s.listen.refused(w.channel); err != nil {
		stop()
		return nil, nil, again, err
	}
	return w.wake, stop, false, nil
}

// confirmed waits until the subscription was answered. If it was before, an ended ctx is no obstacle.
func (l *listener) confirmed(ctx context.Context, ch *channel) error {
	select {
	case <-ch.ready:
		return nil
	default:
	}
	select {
	case <-ch.ready:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-l.ctx.Done():
		return errClosed
	}
}

// What a process begins with that listens on a Cluster: on shard channels, or on those that every node publishes.
const (
	shard   = "s"
	classic = "c"
)

func (l *listener) add(id, record string, n *node) (*watch, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, errClosed
	}
	cluster, process := l.store.cluster != nil, l.store.process
	sharded := cluster && !l.classic
	switch {
	case sharded:
		process = shard + process
	case cluster:
		process = classic + process
	}
	name := record + ":" + process
	ch := l.channels[name]
	if ch == nil {
		ch = &channel{record: record, process: process, name: name, sharded: sharded, ready: make(chan signal)}
		if err := l.assign(ch, n); err != nil {
			return nil, err
		}
		l.channels[name] = ch
	}
	ch.watches++
	if old := l.watches[id]; old != nil {
		l.detach(old)
	}
	w := &watch{channel: ch, wake: make(chan signal, 1)}
	l.watches[id] = w
	if err := ch.from.open(); err != nil {
		return nil, err
	}
	return w, nil
}

// assign gives ch to the subscriber at n. mu is held, as it is for detach.
func (l *listener) assign(ch *channel, n *node) error {
	s := l.subscribers[n]
	if s == nil {
		s = &subscriber{l: l, node: n, kick: make(chan signal, 1)}
		l.subscribers[n] = s
	}
	ch.from = s
	return s.open()
}

func (l *listener) remove(id string, w *watch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.watches[id] == w {
		delete(l.watches, id)
		l.detach(w)
	}
}

func (l *listener) detach(w *watch) {
	if w.later != nil {
		w.later.Stop()
	}
	w.channel.watches--
	if w.channel.watches == 0 {
		w.channel.idle = time.Now()
	}
}

// refused returns why ch was refused, and whether another kind of channel may not be.
func (l *listener) refused(ch *channel) (again bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return ch.sharded && l.classic, ch.err
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
