package main

import (
	"fmt"
	"io"
	"time"
)

// talkBound is how long the job's supervision waits for a line to be written.
const talkBound = 100 * time.Millisecond

// talk says what --verbose asks for and does not hold up who supervises the job: whoever reads stderr may have stopped reading, and the lock does not wait. Lines that nobody
// takes are dropped. Its goroutine ends when it is closed, unless it still writes: then only the end of the process does.
type talk chan line

type line struct {
	text    string
	written chan struct{}
}

func newTalk(w io.Writer) talk {
	t := make(talk, 16)
	go func() {
		for l := range t {
			say(w, "%s", l.text)
			close(l.written)
		}
	}()
	return t
}

func (t talk) say(format string, args ...any) {
	l := line{fmt.Sprintf(format, args...), make(chan struct{})}
	select {
	case t <- l:
	default:
		return
	}
	select {
	case <-l.written:
	case <-time.After(talkBound):
	}
}
