package redistest

import (
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"
)

// Proxy is a network between clients and a server that does what the test says to requests, replies and connections. It speaks RESP 2 and 3, so it knows
// where they begin and which reply belongs to which request; it cannot look into TLS. Its methods may be called at any time from any goroutine.
type Proxy struct {
	t        testing.TB
	dial     func() (net.Conn, error)
	listener net.Listener // nil without StartProxy
	running  sync.WaitGroup

	mu     sync.Mutex
	random *rand.Rand
	rules  []*rule
	hole   [2]bool
	paused [2]chan struct{} // closed by Heal; nil when not paused
	links  map[*link]struct{}
	closed bool
	counts Counts
}

// Counts are what a [Proxy] has seen and done.
type Counts struct {
	Connections int // accepted
	Open        int // connections now
	Requests    int // from clients, whatever happened to them
	Replies     int // from servers, pushed messages too
	Dropped     int // requests and replies that were lost, by Drop and in a black hole
	Delayed     int
	Duplicated  int
	Answered    int
	Cut         int // connections, by Cut and by CutAll
}

// StartProxy listens on a free port of 127.0.0.1 and passes on to target until the test ends. The seed decides about all that is random.
func StartProxy(t testing.TB, target string, seed uint64) *Proxy {
	t.Helper()
	dialer := net.Dialer{Timeout: 5 * time.Second}
	p := NewProxy(t, func() (net.Conn, error) { return dialer.DialContext(t.Context(), "tcp", target) }, seed)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.listener = listener
	p.running.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			p.running.Go(func() {
				if p.Serve(client) != nil {
					reset(client)
				}
			})
		}
	})
	return p
}

// NewProxy is a proxy without a port, for connections that come by [Proxy.Serve]; dial connects to the server.
func NewProxy(t testing.TB, dial func() (net.Conn, error), seed uint64) *Proxy {
	t.Helper()
	p := &Proxy{t: t, dial: dial, random: rand.New(rand.NewPCG(seed, 0)), links: map[*link]struct{}{}} //nolint:gosec // It must be repeatable.
	t.Cleanup(func() {
		p.close()
		if t.Failed() {
			t.Logf("the proxy had the seed %d and counted %+v", seed, p.Counts())
		}
	})
	return p
}

// Serve connects a client with the server, and returns at once.
func (p *Proxy) Serve(client net.Conn) error {
	server, err := p.dial()
	if err != nil {
		return err
	}
	l := newLink(p, client, server)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		reset(server)
		return errors.New("the proxy is closed")
	}
	p.counts.Connections++
	p.links[l] = struct{}{}
	p.running.Go(func() {
		l.run()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.links, l)
	})
	return nil
}

// Addr is where [StartProxy] listens.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Counts returns the present counts.
func (p *Proxy) Counts() Counts {
	p.mu.Lock()
	defer p.mu.Unlock()
	counts := p.counts
	counts.Open = len(p.links)
	return counts
}

// BlackHole loses everything from now on, in these directions or in both: connections are accepted and stay open, and nothing comes through. A connection
// that lost something stays silent in this direction after Heal.
func (p *Proxy) BlackHole(directions ...Direction) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range both(directions) {
		p.hole[d] = true
	}
}

// Pause holds everything from now on, in these directions or in both, and Heal lets it through: so come packets late that TCP has sent again.
func (p *Proxy) Pause(directions ...Direction) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range both(directions) {
		if p.paused[d] == nil {
			p.paused[d] = make(chan struct{})
		}
	}
}

// Heal ends BlackHole, Pause, Next and Sometimes.
func (p *Proxy) Heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = nil
	p.hole = [2]bool{}
	p.resume()
}

func (p *Proxy) resume() {
	for d, paused := range p.paused {
		if paused != nil {
			close(paused)
			p.paused[d] = nil
		}
	}
}

// CutAll resets all connections. New ones are accepted.
func (p *Proxy) CutAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		p.counts.Cut++
		l.abort()
	}
}

func both(directions []Direction) []Direction {
	if len(directions) == 0 {
		return []Direction{Requests, Replies}
	}
	return directions
}

func (p *Proxy) close() {
	if p.listener != nil {
		_ = p.listener.Close()
	}
	p.mu.Lock()
	p.closed = true
	p.resume()
	for l := range p.links {
		l.abort()
	}
	p.mu.Unlock()
	p.running.Wait()
}

func (p *Proxy) count(which func(*Counts)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	which(&p.counts)
}

// state tells whether a direction loses everything, and what to wait for first.
func (p *Proxy) state(d Direction) (hole bool, paused <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.hole[d], p.paused[d]
}

// reset closes a connection; TCP tells the peer by RST, so that it cannot take this for an end in order.
func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // It fails when the peer was faster.
	}
	_ = conn.Close()
}
