package redisstore

import (
	"context"
	"errors"
	"iter"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/picket-go/picket/internal/bound"
)

// subscriber is the part of the listener that hears one server.
type subscriber struct {
	l       *listener
	node    *node
	kick    chan signal // something changed for the goroutine
	running bool        // guarded by the listener's mu
	at      string      // on a Cluster: how the node's id begins; guarded by the listener's mu
}

// open has the goroutine run and look at what there is to listen to. The listener's mu is held.
func (s *subscriber) open() error {
	if !s.running {
		if err := s.l.store.crew.enter(); err != nil {
			return err
		}
		s.running = true
		go s.run()
	}
	s.stir()
	return nil
}

func (s *subscriber) stir() {
	select {
	case s.kick <- signal{}:
	default:
	}
}

// run keeps a connection open while there are channels.
func (s *subscriber) run() {
	l := s.l
	defer l.store.crew.work.Done()
	if l.store.cluster != nil {
		s.locate()
	}
	for {
		c := newConnection(s)
		err := c.serve()
		s.lose()
		if l.ctx.Err() != nil || errors.Is(err, errIdle) && s.finish() {
			return
		}
		if errors.Is(err, errIdle) {
			continue
		}
		if l.store.cluster != nil {
			s.node.silent.Store(true) // another node may know who has taken over
			l.store.cluster.renew(l.ctx)
		}
		select {
		case <-time.After(reopenAfter):
		case <-l.ctx.Done():
			return
		}
	}
}

// idLength is how much of a node's id tells it from others.
const idLength = 10

// locate learns the id of the node. Without it, waiters that listen elsewhere are passed over when the slot has just come here.
func (s *subscriber) locate() {
	ctx := bound.New(s.l.ctx, callBound)
	defer ctx.Stop()
	cmd := once{redis.NewCmd(ctx, "cluster", "myid")}
	if err := s.node.client.Process(ctx, cmd); err != nil {
		return
	}
	id, err := cmd.Text()
	if err != nil || len(id) < idLength {
		return
	}
	s.l.mu.Lock()
	defer s.l.mu.Unlock()
	s.at = id[:idLength]
}

// finish ends the goroutine unless somebody has come.
func (s *subscriber) finish() bool {
	s.l.mu.Lock()
	defer s.l.mu.Unlock()
	for range s.channels() {
		return false
	}
	s.running = false
	return true
}

// channels are those of this subscriber. The listener's mu is held.
func (s *subscriber) channels() iter.Seq2[string, *channel] {
	return func(yield func(string, *channel) bool) {
		for name, ch := range s.l.channels {
			if ch.from == s && !yield(name, ch) {
				return
			}
		}
	}
}

// lose notes that the connection is gone: nothing is heard until the next one, which may be to another node of a Cluster.
func (s *subscriber) lose() {
	s.l.mu.Lock()
	defer s.l.mu.Unlock()
	for _, ch := range s.channels() {
		ch.silence()
		ch.lost = s.l.store.cluster != nil
	}
}

// silence notes that ch is not heard any more.
func (ch *channel) silence() {
	ch.before = ch.before || ch.heard
	ch.asked, ch.heard = false, false
}

// confirm notes that the server has subscribed us.
func (s *subscriber) confirm(name string) {
	l := s.l
	l.mu.Lock()
	defer l.mu.Unlock()
	ch := l.channels[name]
	if ch == nil || ch.from != s || ch.heard {
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
	ch.settle()
}

// settle lets those go on that wait for the subscription.
func (ch *channel) settle() {
	select {
	case <-ch.ready:
	default:
		close(ch.ready)
	}
}

// dropped notes that the server has ended a subscription: the slot was given to another node.
func (s *subscriber) dropped(name string) {
	s.l.mu.Lock()
	defer s.l.mu.Unlock()
	if ch := s.l.channels[name]; ch != nil && ch.from == s && ch.asked {
		ch.silence()
		ch.lost = true
		s.stir()
	}
}

// answered takes the server's no to a subscription. It does not say to which.
func (s *subscriber) answered(err error) {
	l := s.l
	h, redirected := redirectOf(err)
	cluster := l.store.cluster != nil
	lacking := redis.HasErrorPrefix(err, "NOPERM") || redis.HasErrorPrefix(err, "ERR unknown command")
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, ch := range s.channels() {
		switch {
		case !ch.asked || ch.heard:
		case cluster && redirected:
			if strings.HasPrefix(h.text, "MOVED "+slotText(ch.record)+" ") {
				ch.asked, ch.lost, ch.to = false, true, h
			}
		case cluster && redis.IsClusterDownError(err):
			ch.asked, ch.lost = false, true
		default: // who waits for it polls
			l.classic = l.classic || ch.sharded && lacking
			delete(l.channels, name)
			ch.err = err
			ch.settle()
		}
	}
	if redirected {
		s.stir()
	} else if cluster {
		time.AfterFunc(reopenAfter, s.stir)
	}
}

// find gives channels whose node is in question to the subscriber at the right one.
func (s *subscriber) find() {
	l := s.l
	type question struct {
		ch *channel
		to *redirect
	}
	var lost []question
	l.mu.Lock()
	for _, ch := range s.channels() {
		switch {
		case !ch.lost || ch.watches == 0:
		case time.Since(ch.moved) < mapPause: // the nodes do not agree yet, and send it to and fro
			time.AfterFunc(reopenAfter, s.stir)
		default:
			lost = append(lost, question{ch, ch.to})
		}
	}
	l.mu.Unlock()
	if len(lost) == 0 {
		return
	}
	ctx := bound.New(l.ctx, callBound)
	defer ctx.Stop()
	for _, q := range lost {
		n, err := s.whither(ctx, q.ch.record, q.to)
		if err != nil {
			time.AfterFunc(reopenAfter, s.stir)
			return
		}
		l.mu.Lock()
		if q.ch.from == s && q.ch.lost {
			if q.ch.lost, q.ch.to = false, nil; n != s.node {
				q.ch.moved = time.Now()
			}
			err = l.assign(q.ch, n)
		}
		l.mu.Unlock()
		if err != nil {
			return // closed
		}
	}
}

// whither is the node that publishes for a lock, which is at to if that was said.
func (s *subscriber) whither(ctx context.Context, record string, to *redirect) (*node, error) {
	if to == nil {
		return s.l.store.cluster.at(ctx, record)
	}
	return s.l.store.cluster.next(ctx, s.node, to, record)
}

// changes returns the channels to subscribe now and those to leave; done says that there has been nothing to listen to for long enough.
func (s *subscriber) changes(now time.Time) (join, part []*channel, done bool) {
	s.l.mu.Lock()
	defer s.l.mu.Unlock()
	done = true
	for name, ch := range s.channels() {
		if ch.watches == 0 && now.Sub(ch.idle) >= linger {
			delete(s.l.channels, name)
			if ch.asked {
				part = append(part, ch)
			}
			continue
		}
		done = false
		if !ch.asked && !ch.lost && ch.watches > 0 {
			ch.asked = true
			join = append(join, ch)
		}
	}
	return join, part, done
}
