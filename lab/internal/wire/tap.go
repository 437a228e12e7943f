// Package wire listens to what a Redis client sends. go-redis' own hooks do not see all: a client made by WithTimeout has none.
package wire

import (
	"bytes"
	"context"
	"net"
	"slices"
	"strconv"
	"sync"
)

// Tap notes the commands that go through its connections, but those by which a client introduces itself.
type Tap struct {
	mu   sync.Mutex
	keep bool
	n    int64
	kept [][]string
}

// NewTap returns a Tap that keeps the commands for Take, or only counts them.
func NewTap(keep bool) *Tap { return &Tap{keep: keep} }

// Dial is for redis.Options.Dialer.
func (t *Tap) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &tapped{Conn: conn, tap: t}, nil
}

// Count is how many commands were sent so far.
func (t *Tap) Count() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.n
}

// Take returns the commands since the last Take, each with its arguments.
func (t *Tap) Take() [][]string {
	t.mu.Lock()
	defer t.mu.Unlock()
	taken := t.kept
	t.kept = nil
	return taken
}

var introductions = []string{"hello", "client", "auth", "select"}

func (t *Tap) note(words []string) {
	if slices.Contains(introductions, lower(words[0])) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.n++
	if t.keep {
		t.kept = append(t.kept, words)
	}
}

func lower(s string) string { return string(bytes.ToLower([]byte(s))) }

// tapped is a connection; its Writes come one at a time.
type tapped struct {
	net.Conn
	tap  *Tap
	rest []byte // the beginning of a command
}

// Write implements net.Conn.
func (c *tapped) Write(p []byte) (int, error) {
	c.rest = append(c.rest, p...)
	for {
		words, rest, ok := command(c.rest)
		if !ok {
			break
		}
		c.rest = rest
		if len(words) > 0 {
			c.tap.note(words)
		}
	}
	if len(c.rest) == 0 {
		c.rest = nil
	}
	return c.Conn.Write(p)
}

// command splits the first request off text: "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n". It is not ok if text ends before the request does.
func command(text []byte) (words []string, rest []byte, ok bool) {
	n, rest, ok := header(text, '*')
	for ; ok && n > 0; n-- {
		var length int
		length, rest, ok = header(rest, '$')
		if !ok || len(rest) < length+2 {
			return nil, nil, false
		}
		words = append(words, string(rest[:length]))
		rest = rest[length+2:]
	}
	return words, rest, ok
}

func header(text []byte, kind byte) (n int, rest []byte, ok bool) {
	line, rest, ok := bytes.Cut(text, []byte("\r\n"))
	if !ok || len(line) < 2 || line[0] != kind {
		return 0, nil, false
	}
	n, err := strconv.Atoi(string(line[1:]))
	return n, rest, err == nil && n >= 0
}
