package redistest

import (
	"slices"
	"strings"
	"time"
)

// Direction is one of the two ways through a [Proxy].
type Direction int

const (
	Requests Direction = iota // from the client to the server
	Replies                   // from the server to the client
)

func (d Direction) String() string {
	return [...]string{"requests", "replies"}[d]
}

// Fault is what happens to a request or to its reply.
type Fault struct {
	direction Direction
	action    action
	from, to  time.Duration
	answer    []byte
}

type action int

const (
	pass action = iota
	drop
	cut
	repeat
	answer
)

// Drop loses the request, or the reply of a request that the server has carried out. As in TCP, nothing that comes after a loss arrives: the connection is
// silent in this direction, and open, for the rest of its life.
func Drop(d Direction) Fault { return Fault{direction: d, action: drop} }

// Cut resets the connection in place of delivering: a request has not reached the server, a reply has not reached the client.
func Cut(d Direction) Fault { return Fault{direction: d, action: cut} }

// Delay holds a request or a reply, and what follows on its connection, for a random time between from and to. A request is delivered even when its client
// has closed the connection meanwhile.
func Delay(d Direction, from, to time.Duration) Fault { return Fault{direction: d, from: from, to: to} }

// Duplicate delivers a request twice, as by a client that tries again. The second reply is discarded.
func Duplicate() Fault { return Fault{action: repeat} }

// Answer gives the client this error, such as "LOADING Redis is loading the dataset in memory", and keeps the request from the server.
func Answer(message string) Fault {
	return Fault{action: answer, answer: []byte("-" + message + "\r\n")}
}

// rule is a fault and the requests that it waits for.
type rule struct {
	fault       Fault
	left        int     // how often, if the probability is 0
	probability float64 // for ever
	commands    []string
}

// connecting are the commands by which clients set up a connection. Faults are for what comes after.
var connecting = []string{"hello", "auth", "client", "select", "readonly"}

func (r *rule) matches(command string) bool {
	if len(r.commands) > 0 {
		return slices.Contains(r.commands, command)
	}
	return !slices.Contains(connecting, command)
}

// Next gives the fault to the next n requests, or to the next n of these commands. Without commands those that set up a connection are spared: HELLO,
// AUTH, CLIENT, SELECT, READONLY.
func (p *Proxy) Next(n int, fault Fault, commands ...string) {
	p.addRule(&rule{fault: fault, left: n, commands: lower(commands)})
}

// Sometimes gives the fault to each request, or to each of these commands, with a probability. The first rule that takes a request is the only one.
func (p *Proxy) Sometimes(probability float64, fault Fault, commands ...string) {
	if probability <= 0 || probability > 1 {
		p.t.Helper()
		p.t.Fatalf("a probability of %v", probability)
	}
	p.addRule(&rule{fault: fault, probability: probability, commands: lower(commands)})
}

func (p *Proxy) addRule(r *rule) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = append(p.rules, r)
}

func lower(commands []string) []string {
	names := make([]string, len(commands))
	for i, c := range commands {
		names[i] = strings.ToLower(c)
	}
	return names
}

// choose returns what happens to a request, with a fixed time for Delay in from.
func (p *Proxy) choose(command string) Fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts.Requests++
	for i, r := range p.rules {
		if !r.matches(command) {
			continue
		}
		if r.probability > 0 && p.random.Float64() >= r.probability {
			continue
		}
		if r.probability == 0 {
			if r.left--; r.left <= 0 {
				p.rules = slices.Delete(p.rules, i, i+1)
			}
		}
		fault := r.fault
		if fault.to > fault.from {
			fault.from += time.Duration(p.random.Int64N(int64(fault.to - fault.from)))
		}
		return fault
	}
	return Fault{}
}
