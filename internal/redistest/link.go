package redistest

import (
	"bufio"
	"net"
	"sync"
	"time"
)

// link is one connection through a proxy. Each direction has a goroutine that reads and one that writes, so that a delay holds what follows no longer than
// itself, and so that what a client sent before it hung up still arrives.
type link struct {
	proxy *Proxy
	ends  [2]net.Conn    // by the direction that comes from there
	queue [2]chan parcel // by direction
	gone  chan struct{}  // closed by abort
	abort func()         // once

	mu      sync.Mutex
	pending []reply // that the server owes, in order
}

// parcel is a request or a reply on its way; a nil text is the end of the stream.
type parcel struct {
	text   []byte
	due    time.Time
	action action
}

// reply is what the client is to get for a request.
type reply struct {
	fault   Fault
	discard bool   // the second of a Duplicate
	instead []byte // without the server
}

func newLink(p *Proxy, client, server net.Conn) *link {
	l := &link{
		proxy: p, ends: [2]net.Conn{client, server}, gone: make(chan struct{}),
		queue: [2]chan parcel{make(chan parcel, 1024), make(chan parcel, 1024)},
	}
	l.abort = sync.OnceFunc(func() {
		close(l.gone)
		reset(client)
		reset(server)
	})
	return l
}

// run returns when both directions have ended, or at abort.
func (l *link) run() {
	var all sync.WaitGroup
	all.Go(l.readRequests)
	all.Go(l.readReplies)
	var writers sync.WaitGroup
	writers.Go(func() { l.write(Requests) })
	writers.Go(func() { l.write(Replies) })
	writers.Wait()
	// In order, and not by abort, so that nothing is lost that was written.
	_ = l.ends[Requests].Close()
	_ = l.ends[Replies].Close()
	all.Wait()
}

func (l *link) readRequests() {
	defer l.send(Requests, parcel{})
	from := bufio.NewReader(l.ends[Requests])
	for {
		request, err := readFrame(from)
		if err != nil {
			return
		}
		command := request.command()
		if !l.request(request.text, l.proxy.choose(command), pushes(command)) {
			return
		}
	}
}

// pushes reports whether the command's answer comes as a push, and not in turn. In RESP 2 the two look the same, but there a connection that subscribes does
// nothing else.
func pushes(command string) bool {
	switch command {
	case "subscribe", "unsubscribe", "psubscribe", "punsubscribe", "ssubscribe", "sunsubscribe":
		return true
	}
	return false
}

// request notes the reply that is owed and sends the request on its way.
func (l *link) request(text []byte, fault Fault, pushes bool) bool {
	p := parcel{text: text}
	if fault.direction == Requests {
		p.action = fault.action
		p.due = l.delay(fault)
	}
	if fault.action == answer {
		l.proxy.count(func(c *Counts) { c.Answered++ })
		return l.owe(reply{instead: fault.answer})
	}
	if !pushes {
		l.owe(reply{fault: fault})
	}
	if fault.action == repeat {
		l.proxy.count(func(c *Counts) { c.Duplicated++ })
		p.text = append(p.text, text...)
		l.owe(reply{discard: true})
	}
	return l.send(Requests, p)
}

func (l *link) delay(fault Fault) time.Time {
	if fault.from <= 0 {
		return time.Time{}
	}
	l.proxy.count(func(c *Counts) { c.Delayed++ })
	return time.Now().Add(fault.from)
}

func (l *link) owe(r reply) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending = append(l.pending, r)
	return l.settle()
}

func (l *link) readReplies() {
	defer l.send(Replies, parcel{})
	from := bufio.NewReader(l.ends[Replies])
	for {
		frame, err := readFrame(from)
		if err != nil {
			return
		}
		l.proxy.count(func(c *Counts) { c.Replies++ })
		if !l.reply(frame) {
			return
		}
	}
}

// reply sends a frame of the server on its way, and the answers that waited for it. It does so under the lock, because settle in the other reader must not
// come between.
func (l *link) reply(f frame) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := parcel{text: f.text}
	if !f.push() && len(l.pending) > 0 { // None is pending for a message in RESP 2.
		owed := l.pending[0]
		l.pending = l.pending[1:]
		if owed.discard {
			return l.settle()
		}
		if owed.fault.direction == Replies {
			p.action = owed.fault.action
			p.due = l.delay(owed.fault)
		}
	}
	return l.send(Replies, p) && l.settle()
}

// settle sends the answers that need no server and whose turn it is. The caller has the lock.
func (l *link) settle() bool {
	for len(l.pending) > 0 && l.pending[0].instead != nil {
		if !l.send(Replies, parcel{text: l.pending[0].instead}) {
			return false
		}
		l.pending = l.pending[1:]
	}
	return true
}

func (l *link) send(d Direction, p parcel) bool {
	select {
	case l.queue[d] <- p:
		return true
	case <-l.gone:
		return false
	}
}

// write delivers what is queued in one direction until its end.
func (l *link) write(d Direction) {
	to := l.ends[1-d]
	silent := false
	for {
		var p parcel
		select {
		case p = <-l.queue[d]:
		case <-l.gone:
			return
		}
		if !l.hold(d, p.due) {
			return
		}
		hole, _ := l.proxy.state(d)
		silent = silent || hole || p.action == drop
		switch {
		case silent && p.text == nil:
			return // Not even the end gets through, so the other side waits.
		case silent:
			l.proxy.count(func(c *Counts) { c.Dropped++ })
		case p.action == cut:
			l.proxy.count(func(c *Counts) { c.Cut++ })
			l.abort()
			return
		case p.text == nil:
			closeWrite(to)
			return
		default:
			_, _ = to.Write(p.text) // A peer that has gone hears nothing, and its own direction ends.
		}
	}
}

// hold waits until a parcel is due and its direction is not paused.
func (l *link) hold(d Direction, due time.Time) bool {
	if wait := time.Until(due); wait > 0 {
		select {
		case <-time.After(wait):
		case <-l.gone:
			return false
		}
	}
	for {
		_, paused := l.proxy.state(d)
		if paused == nil {
			return true
		}
		select {
		case <-paused:
		case <-l.gone:
			return false
		}
	}
}

// closeWrite passes the end of a stream on; a pipe has no half that could be closed.
func closeWrite(conn net.Conn) {
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite() // The peer has closed it all.
		return
	}
	_ = conn.Close()
}
