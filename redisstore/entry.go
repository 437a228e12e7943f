package redisstore

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/picket-go/picket"
)

const (
	// askingWords and leavingWords are how many arguments a claim has that wants the lock, and at most one that gives it back. The id is the first.
	askingWords  = 4
	leavingWords = 3
	mostWords    = len(suffixes) + 1 + leavingWords + askingWords
)

// word is a piece of an entry's text. A pointer to one makes an argument for go-redis without an allocation, as strings and slices do not.
type word []byte

// MarshalBinary is what go-redis sends.
func (w *word) MarshalBinary() ([]byte, error) { return *w, nil }

// String is what a tracer prints.
func (w *word) String() string { return string(*w) }

// entry is one claim's part of a call. Entries are used again, so that a lock costs no garbage, except those that their callers have left: a call may still hold them.
type entry struct {
	subject
	text  []byte // of the words, one after the other
	ends  [mostWords]int
	words [mostWords]word
	n     int
	keys  int                     // so many of the words, in front
	args  [places + mostWords]any // of a call for it alone
	alone [1]*entry

	direct bool        // it travels on its caller's goroutine, who need not be told
	sent   bool        // guarded by the lane's mu
	until  time.Time   // zero, or when the caller leaves
	told   atomic.Bool // the caller knows how it ended: by an answer, or because it has left
	done   chan signal // after told, if somebody else did it
	left   error       // why the caller has left; then the rest is not the caller's to read
	answer answer
	err    error
}

// entryPool keeps entries. Each Store has its own: nothing of one Store can wake a goroutine of another.
type entryPool struct{ sync.Pool }

func (p *entryPool) get() *entry {
	if e, ok := p.Get().(*entry); ok {
		return e
	}
	return &entry{text: make([]byte, 0, 512), done: make(chan signal, 1)}
}

// newEntry begins with the keys of a name.
func (s *Store) newEntry(op, name string) *entry {
	e := s.entries.get()
	e.subject = subject{op, name}
	e.text = s.appendRecord(e.text, name)
	record := len(e.text)
	e.end()
	for _, suffix := range suffixes[1:] {
		e.text = append(append(e.text, e.text[:record]...), suffix...)
		e.end()
	}
	if s.cluster != nil {
		e.text = append(append(e.text, e.text[:record]...), absent...)
		e.end()
	}
	e.keys = e.n
	return e
}

// again makes e ready for another way, after an answer that said that nothing was done.
func (e *entry) again() {
	e.direct, e.sent, e.until = false, false, time.Time{}
	e.told.Store(false)
	e.answer, e.err = answer{}, nil
}

// recycle is for the caller that has its answer: nobody else knows e any more.
func (s *Store) recycle(e *entry) {
	e.subject, e.n, e.text = subject{}, 0, e.text[:0]
	e.again()
	s.entries.Put(e)
}

// end ends a word.
func (e *entry) end() {
	e.ends[e.n] = len(e.text)
	e.n++
}

// cut makes the words of the text, which does not grow any more.
func (e *entry) cut() {
	from := 0
	for i, end := range e.ends[:e.n] {
		e.words[i], from = e.text[from:end:end], end
	}
}

func (e *entry) number(n int64) { e.text = strconv.AppendInt(e.text, n, 10) }

// asking adds the arguments of a claim that wants the lock.
func (e *entry) asking(s *Store, c picket.Claim) {
	queue, life, process := int64(0), defaultLife, "-"
	if c.Queue {
		queue = 1
		if heard := s.listen.hears(c.ID); heard != "" {
			process = heard
		}
	}
	if c.Recheck > 0 {
		life = 3*c.Recheck + slack
	}
	ttl, delay := millis(c.TTL), millis(c.LockDelay)
	e.text = append(e.text, c.ID...)
	e.end()
	e.number(ttl + delay)
	e.end()
	e.text = appendHeld(e.text, ttl, delay, c.Holder)
	e.end()
	for _, n := range [...]int64{delay, queue, millis(life)} {
		e.number(n)
		e.text = append(e.text, ' ')
	}
	e.text = append(e.text, process...)
	e.end()
}

// What stands after the id of a claim that gives the lock back.
const (
	markPlain    = "-"  // nothing
	markLeaving  = "--" // its min hold and doubt
	markTransfer = ">"  // the same, and the claim that gets the lock
)

// leaving adds the arguments of a claim that gives the lock back.
func (e *entry) leaving(c picket.Claim, mark string) {
	if mark == markLeaving && c.MinHold <= 0 && !c.Doubt {
		mark = markPlain
	}
	e.text = append(e.text, c.ID...)
	e.end()
	e.text = append(e.text, mark...)
	e.end()
	if mark == markPlain {
		return
	}
	e.number(millis(c.MinHold))
	if c.Doubt {
		e.text = append(e.text, " 1"...)
	} else {
		e.text = append(e.text, " 0"...)
	}
	e.end()
}

// arguments writes those of a call for es to args, which may be nil: first all keys, then all the rest.
func arguments(es []*entry, args []any) []any {
	args = slices.Grow(args[:0], places+len(es)*mostWords)[:places]
	for _, e := range es {
		for i := range e.keys {
			args = append(args, &e.words[i])
		}
	}
	for _, e := range es {
		for i := e.keys; i < e.n; i++ {
			args = append(args, &e.words[i])
		}
	}
	return args
}

// tell hands the outcome to whoever waits for it.
func (e *entry) tell() {
	if !e.direct && e.told.CompareAndSwap(false, true) {
		e.done <- signal{}
	}
}

// leave takes the caller out of the call, because of err. It reports false if the outcome came first.
func (e *entry) leave(err error) bool {
	if e.direct || !e.told.CompareAndSwap(false, true) {
		return false
	}
	e.left = err
	return true
}

// late is why a caller leaves whose time is over.
func (e *entry) late() error {
	if !e.sent {
		return unsentError{context.DeadlineExceeded}
	}
	return context.DeadlineExceeded
}
