package redisstore_test

import (
	"crypto/rand"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	turnSwaps = 16 // how many waiters a process may serve before it queues again (DESIGN 3.6)
	turnTime  = 100 * time.Millisecond

	expiryGrain = 2 * time.Millisecond // a server's expiry counts in milliseconds
)

// order goes through the journal of a server, or of several, and checks who was let in and when, against the queue as it was at that moment.
type order struct {
	locks  map[string]*orderedLock
	late   time.Duration // how long a request of a turn may have been under way
	faults []string
	killed string        // the key whose server died: the promoted one may not know the queue as it was
	died   time.Duration // when

	// the call that is under way
	ids     map[string]bool // of its claims
	swapped map[string]bool // claims that were let in past the queue, as their process has its turn

	grants, swaps, handOffs, lapses, ghosts int
	longest                                 int // swaps of one turn
}

// orderedLock is a key as the server has it.
type orderedLock struct {
	record  tenure
	past    []tenure
	tickets map[string]float64
	waiters map[string]heartbeat
	passed  string // those that let a hand-off lapse
	pardon  string // and those that were forgiven in this call
	handed  string
	unheard map[string]bool    // told in this call
	left    map[string]float64 // in this call
	turn    time.Duration      // when it began
	served  int                // by swaps since
}

// tenure is a record from when until when it can have been there.
type tenure struct {
	id          string
	token       int64
	pid         int
	from, until time.Duration
	ghost       bool // handed to a waiter that had left when the server died
}

type heartbeat struct {
	seen, life time.Duration
	node       string // on a Cluster: how the id of the server begins where it listens
}

// keyPattern takes a Redis key of ours apart.
var (
	keyPattern       = regexp.MustCompile(`^lock:\{(.+)\}(:queue|:waiters|:fence|:gone)?(?::(.+))?$`)
	recordPattern    = regexp.MustCompile(`^([-\w]{26}) token=(\d+) .*state=(\w+) pid=(\d+)`)
	heartbeatPattern = regexp.MustCompile(`^seen=(\d+) life=(\d+) ttl=\d+ proc=[-\w]+@?(\w*) `)
)

func newOrder(late time.Duration) *order {
	return &order{locks: map[string]*orderedLock{}, late: late, ids: map[string]bool{}, swapped: map[string]bool{}}
}

func (o *order) fault(format string, args ...any) {
	o.faults = append(o.faults, fmt.Sprintf(format, args...))
}

// unfair is a fault in who is let in, by what the server that lets in must know.
func (o *order) unfair(key string, at time.Duration, format string, args ...any) {
	if key != o.killed || at < o.died {
		o.fault("%q: %s", key, fmt.Sprintf(format, args...))
	}
}

func (o *order) read(journal []executed) {
	for _, e := range journal {
		if !e.lua {
			o.call(e)
			continue
		}
		part := keyPattern.FindStringSubmatch(e.words[min(1, len(e.words)-1)])
		if part == nil {
			continue
		}
		key, suffix := part[1], part[2]
		l := o.locks[key]
		if l == nil {
			l = &orderedLock{tickets: map[string]float64{}, waiters: map[string]heartbeat{}, unheard: map[string]bool{}, left: map[string]float64{}}
			o.locks[key] = l
		}
		switch suffix {
		case "":
			o.onRecord(key, l, e)
		case ":queue":
			o.onQueue(key, l, e)
		case ":waiters":
			o.onWaiters(l, e)
		}
	}
}

// call notes whose claims a script call is for, and which of them is let in past the queue: those of a transfer that does not ask to queue.
func (o *order) call(e executed) {
	clear(o.ids)
	clear(o.swapped)
	for _, l := range o.locks {
		clear(l.unheard)
		clear(l.left)
		l.pardon = ""
	}
	for i, word := range e.words {
		if len(word) != len(rand.Text()) {
			continue
		}
		o.ids[word] = true
		if i+6 < len(e.words) && e.words[i+1] == ">" {
			o.swapped[e.words[i+3]] = strings.Fields(e.words[i+6])[1] == "0"
		}
	}
}

func (o *order) onRecord(key string, l *orderedLock, e executed) {
	switch e.words[0] {
	case "del":
		l.end(e.at)
	case "pexpire":
		l.record.until = e.at + millisecondsOf(e.words[2])
	case "publish", "spublish":
		// Who listened where the slot was before may not have come here yet.
		if id := e.words[2]; strings.HasPrefix(e.node, l.waiters[id].node) {
			l.unheard[id] = true
		}
	case "set":
		part := recordPattern.FindStringSubmatch(e.words[2])
		if part == nil {
			o.fault("%q: the record %q", key, e.words[2])
			return
		}
		token, _ := strconv.ParseInt(part[2], 10, 64)
		pid, _ := strconv.Atoi(part[4])
		fresh := tenure{id: part[1], token: token, pid: pid, from: e.at, until: e.at + millisecondsOf(e.words[4])}
		if token == l.record.token { // confirmed, or renewed
			l.record.until = fresh.until
			if l.served == 0 { // the holder's turn begins when it knows
				l.turn = e.at
			}
			return
		}
		if over := l.record.until - e.at; l.record.token != 0 && over > expiryGrain && !o.ids[l.record.id] { // else it is given back in this call
			o.unfair(key, e.at, "%s of process %d is let in %v before the record of %s of process %d ends", fresh.id, fresh.pid, over, l.record.id, l.record.pid)
		}
		l.end(e.at)
		before := l.lastToken()
		l.record = fresh
		o.granted(key, l, before, part[3])
	}
}

// end closes the present tenure.
func (l *orderedLock) end(at time.Duration) {
	if l.record.token == 0 {
		return
	}
	l.record.until = min(l.record.until, at)
	l.past = append(l.past, l.record)
	l.record = tenure{}
}

func (l *orderedLock) lastToken() int64 {
	if len(l.past) == 0 {
		return 0
	}
	return l.past[len(l.past)-1].token
}

// granted judges a new tenure: first in, first out by ticket, but for waiters that let a hand-off lapse or cannot be told, and for the turn of a process.
func (o *order) granted(key string, l *orderedLock, before int64, state string) {
	r := l.record
	o.grants++
	if r.token <= before {
		o.fault("%q: token %d follows %d", key, r.token, before)
	}
	if o.swapped[r.id] {
		o.swaps++
		l.served++
		o.longest = max(o.longest, l.served)
		if took := r.from - l.turn; l.served > turnSwaps || took > turnTime+o.late {
			o.unfair(key, r.from, "process %d has served %d of its own in %v while %d others wait", r.pid, l.served, took, len(l.tickets))
		}
		if len(l.tickets) == 0 { // nobody is made to wait: a new turn
			l.turn, l.served = r.from, 0
		}
		return
	}
	l.turn, l.served = r.from, 0
	if state == "handoff" {
		o.handOffs++
		delete(l.unheard, r.id)
	}
	place, stood := l.tickets[r.id]
	if !stood {
		place, stood = l.left[r.id]
	}
	if !stood && state == "handoff" && key == o.killed && r.from > o.died {
		l.record.ghost = true
		o.ghosts++
	}
	for id, ticket := range l.tickets {
		w := l.waiters[id]
		dead := r.from > w.seen+w.life
		if id != r.id && (!stood || ticket < place) && !l.unheard[id] && !strings.Contains(l.passed+l.pardon, id) && !dead {
			o.unfair(key, r.from, "%s of process %d with ticket %.0f (0 is none) is let in before %s with ticket %.0f", r.id, r.pid, place, id, ticket)
		}
	}
}

func (o *order) onQueue(key string, l *orderedLock, e executed) {
	switch e.words[0] {
	case "zadd":
		ticket, _ := strconv.ParseFloat(e.words[2], 64)
		id := e.words[3]
		if l.handed == id+" "+e.words[2] { // back to its place after it let the hand-off lapse
			o.lapses++
		} else {
			for other, before := range l.tickets {
				if ticket <= before {
					o.unfair(key, e.at, "%s comes with ticket %.0f after %s with %.0f", id, ticket, other, before)
				}
			}
		}
		l.tickets[id] = ticket
	case "zrem":
		for _, id := range e.words[2:] {
			ticket, stood := l.tickets[id]
			w := l.waiters[id]
			if stood && !o.ids[id] && id != l.record.id && e.at <= w.seen+w.life {
				o.unfair(key, e.at, "%s is taken out of the queue %v after it was seen", id, e.at-w.seen)
			}
			l.left[id] = ticket
			delete(l.tickets, id)
		}
	}
}

func (o *order) onWaiters(l *orderedLock, e executed) {
	switch e.words[0] {
	case "del":
		clear(l.waiters)
		l.passed, l.handed = "", ""
	case "hdel":
		for _, field := range e.words[2:] {
			switch field {
			case "passed":
				l.passed, l.pardon = "", l.pardon+l.passed
			case "handed": // settle looks at it once more
			default:
				delete(l.waiters, field)
			}
		}
	case "hset":
		switch field, value := e.words[2], e.words[3]; field {
		case "passed":
			l.passed = value
		case "handed":
			l.handed = value
		default:
			if part := heartbeatPattern.FindStringSubmatch(value); part != nil {
				l.waiters[field] = heartbeat{millisecondsOf(part[1]), millisecondsOf(part[2]), part[3]}
			}
		}
	}
}

func millisecondsOf(digits string) time.Duration {
	n, _ := strconv.ParseInt(digits, 10, 64)
	return time.Duration(n) * time.Millisecond
}

// freeOf is when what these processes had left was gone: their leases, and one hand-off of each of their waiters. A second one to the same waiter excuses nobody. The same goes
// for waiters that a promoted server does not know to have left.
func (o *order) freeOf(key string, dead map[int]bool) (at time.Duration) {
	l, offered := o.locks[key], map[string]bool{}
	for _, r := range append(slices.Clone(l.past), l.record) {
		if dead[r.pid] && !offered[r.id] || r.ghost {
			at = max(at, r.until)
		}
		offered[r.id] = true
	}
	return at
}

// history tells who had the key.
func (o *order) history(key string, from, until time.Duration, dead map[int]bool) string {
	var text strings.Builder
	l := o.locks[key]
	for _, r := range append(slices.Clone(l.past), l.record) {
		if r.until >= from && r.from <= until && r.until-r.from > 20*time.Millisecond {
			fmt.Fprintf(&text, "\n\t%s of process %d (killed: %t) from %v to %v", r.id, r.pid, dead[r.pid], r.from-from, r.until-from)
		}
	}
	return text.String()
}
