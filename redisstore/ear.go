package redisstore

import (
	"errors"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/picket-go/picket/internal/bound"
)

// ear is the part of the listener that hears one server.
type ear struct {
	l       *listener
	node    *node
	kick    chan signal // something changed for the goroutine
	running bool        // guarded by the listener's mu
	at      string      // on a Cluster: how the node's id begins; guarded by the listener's mu
}

// open has the goroutine run and look at what there is to listen to. The listener's mu is held.
func (e *ear) open() error {
	if !e.running {
		if err := e.l.store.crew.enter(); err != nil {
			return err
		}
		e.running = true
		go e.run()
	}
	e.stir()
	return nil
}

func (e *ear) stir() {
	select {
	case e.kick <- signal{}:
	default:
	}
}

// run keeps a connection open while there are channels.
func (e *ear) run() {
	l := e.l
	defer l.store.crew.work.Done()
	if l.store.atlas != nil {
		e.locate()
	}
	for {
		c := newConnection(e)
		err := c.serve()
		e.lose()
		if l.ctx.Err() != nil || errors.Is(err, errIdle) && e.finish() {
			return
		}
		if errors.Is(err, errIdle) {
			continue
		}
		if l.store.atlas != nil {
			e.node.silent.Store(true) // another node may know who has taken over
			l.store.atlas.renew(l.ctx)
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
func (e *ear) locate() {
	ctx := bound.New(e.l.ctx, callBound)
	defer ctx.Stop()
	cmd := once{redis.NewCmd(ctx, "cluster", "myid")}
	if err := e.node.client.Process(ctx, cmd); err != nil {
		return
	}
	id, err := cmd.Text()
	if err != nil || len(id) < idLength {
		return
	}
	e.l.mu.Lock()
	defer e.l.mu.Unlock()
	e.at = id[:idLength]
}

// finish ends the goroutine unless somebody has come.
func (e *ear) finish() bool {
	e.l.mu.Lock()
	defer e.l.mu.Unlock()
	for range e.channels() {
		return false
	}
	e.running = false
	return true
}

// channels are those of this ear. The listener's mu is held.
func (e *ear) channels() func(func(string, *channel) bool) {
	return func(yield func(string, *channel) bool) {
		for name, ch := range e.l.channels {
			if ch.ear == e && !yield(name, ch) {
				return
			}
		}
	}
}

// lose notes that the connection is gone: nothing is heard until the next one, which may be to another node of a Cluster.
func (e *ear) lose() {
	e.l.mu.Lock()
	defer e.l.mu.Unlock()
	for _, ch := range e.channels() {
		ch.silence()
		ch.lost = e.l.store.atlas != nil
	}
}

// silence notes that ch is not heard any more.
func (ch *channel) silence() {
	ch.before = ch.before || ch.heard
	ch.asked, ch.heard = false, false
}

// confirm notes that the server has subscribed us.
func (e *ear) confirm(name string) {
	l := e.l
	l.mu.Lock()
	defer l.mu.Unlock()
	ch := l.channels[name]
	if ch == nil || ch.ear != e || ch.heard {
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
func (e *ear) dropped(name string) {
	e.l.mu.Lock()
	defer e.l.mu.Unlock()
	if ch := e.l.channels[name]; ch != nil && ch.ear == e && ch.asked {
		ch.silence()
		ch.lost = true
		e.stir()
	}
}

// answered takes the server's no to a subscription. It does not say to which.
func (e *ear) answered(err error) {
	l := e.l
	h, redirected := hopOf(err)
	cluster := l.store.atlas != nil
	lacking := redis.HasErrorPrefix(err, "NOPERM") || redis.HasErrorPrefix(err, "ERR unknown command")
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, ch := range e.channels() {
		switch {
		case !ch.asked || ch.heard:
		case cluster && redirected:
			if strings.HasPrefix(h.text, "MOVED "+slotText(ch.record)+" ") {
				ch.asked, ch.lost, ch.hop = false, true, h
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
		e.stir()
	} else if cluster {
		time.AfterFunc(reopenAfter, e.stir)
	}
}

// find gives channels whose node is in question to the ear at the right one.
func (e *ear) find() {
	l := e.l
	type question struct {
		ch  *channel
		hop *hop
	}
	var lost []question
	l.mu.Lock()
	for _, ch := range e.channels() {
		switch {
		case !ch.lost || ch.watches == 0:
		case time.Since(ch.moved) < mapPause: // the nodes do not agree yet, and send it to and fro
			time.AfterFunc(reopenAfter, e.stir)
		default:
			lost = append(lost, question{ch, ch.hop})
		}
	}
	l.mu.Unlock()
	if len(lost) == 0 {
		return
	}
	ctx := bound.New(l.ctx, callBound)
	defer ctx.Stop()
	for _, q := range lost {
		n, err := e.node, error(nil)
		if q.hop != nil {
			n, err = l.store.atlas.next(ctx, e.node, q.hop, q.ch.record)
		} else {
			n, err = l.store.atlas.at(ctx, q.ch.record)
		}
		if err != nil {
			time.AfterFunc(reopenAfter, e.stir)
			return
		}
		l.mu.Lock()
		if q.ch.ear == e && q.ch.lost {
			q.ch.lost, q.ch.hop, q.ch.moved = false, nil, time.Now()
			err = l.assign(q.ch, n)
		}
		l.mu.Unlock()
		if err != nil {
			return // closed
		}
	}
}

// changes returns the channels to subscribe now and those to leave; done says that there has been nothing to listen to for long enough.
func (e *ear) changes(now time.Time) (join, part []*channel, done bool) {
	e.l.mu.Lock()
	defer e.l.mu.Unlock()
	done = true
	for name, ch := range e.channels() {
		if ch.watches == 0 && now.Sub(ch.idle) >= linger {
			delete(e.l.channels, name)
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
