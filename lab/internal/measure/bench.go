package measure

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/picket-go/picket/lab/internal/result"
	"github.com/picket-go/picket/lab/internal/rival"
	"github.com/picket-go/picket/lab/internal/server"
)

// Limit is the name under which the server's own limit stands beside the rivals.
const Limit = "limit"

// LimitSettings says how it is found.
const LimitSettings = "redis-benchmark, 64 deep on 4 connections, Picket's scripts with one claim a call: 1/(1/acquires + 1/releases)"

// Bench measures rivals on one server, and on a Cluster that it starts itself.
type Bench struct {
	Plan     Plan
	Server   *server.Server
	Rivals   []rival.Rival
	Limit    bool // also measure the server's own limit
	Progress func(what string)
	Samples  result.Samples
}

func (b *Bench) progress(format string, args ...any) {
	if b.Progress != nil {
		b.Progress(fmt.Sprintf(format, args...))
	}
}

// inTurns returns the rivals of a round: each round begins with another one, so that nobody always follows the same neighbour.
func (b *Bench) inTurns(round int) []rival.Rival {
	n := round % max(1, len(b.Rivals))
	return slices.Concat(b.Rivals[n:], b.Rivals[:n])
}

// waiting returns those of the rivals that wait for a busy lock.
func (b *Bench) waiting(round int) []rival.Rival {
	return slices.DeleteFunc(b.inTurns(round), func(r rival.Rival) bool { return !r.Waits })
}

// target is what is measured on: a server or a Cluster.
type target interface{ Addrs() []string }

// with opens clients of r for f.
func with(r rival.Rival, on target, clients int, f func([]rival.Client) error) (err error) {
	var open []rival.Client
	defer func() {
		for _, c := range open {
			err = errors.Join(err, c.Close())
		}
		if err != nil {
			err = fmt.Errorf("%s: %w", r.Name, err)
		}
	}()
	for range clients {
		c, err := r.Open(on.Addrs())
		if err != nil {
			return err
		}
		open = append(open, c)
	}
	return f(open)
}

// roundTrips is what r has sent by now.
func (b *Bench) roundTrips(ctx context.Context, r rival.Rival) (int64, error) {
	calls, err := b.Server.Calls(ctx)
	return r.RoundTrips(calls), err
}
