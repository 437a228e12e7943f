// Package limit finds how many pairs of acquire and release the server could do at best with Picket's scripts, one claim a call: no client stands in the way.
package limit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"os/exec"
	"regexp"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/picket-go/picket/lab/internal/rival"
	"github.com/picket-go/picket/lab/internal/server"
	"github.com/picket-go/picket/lab/internal/wire"
)

const (
	deep        = 64 // commands in each pipeline
	connections = 4
	keySpace    = math.MaxInt32 // redis-benchmark's largest: two random keys are the same so rarely that it does not matter
	random      = "__rand_int__"
)

// Speed is what the server did, in calls a second.
type Speed struct{ Acquires, Releases float64 }

// Pairs a second, when every acquire is followed by a release.
func (s Speed) Pairs() float64 { return 1 / (1/s.Acquires + 1/s.Releases) }

// Measure has redis-benchmark make this many calls of each script. It empties the server.
//
// The calls are those that Picket itself sends for a lock whose name is redis-benchmark's word for a random number. It draws a new number for each occurrence, so the
// keys of a call belong to different locks: to the server that is the same work.
func Measure(ctx context.Context, s *server.Server, calls int) (Speed, error) {
	acquire, release, err := capture(ctx, s)
	if err != nil {
		return Speed{}, err
	}
	var speed Speed
	if speed.Acquires, err = replay(ctx, s.Addr, acquire, keySpace, calls); err != nil {
		return Speed{}, err
	}
	if err := s.Flush(ctx); err != nil {
		return Speed{}, err
	}
	// A release must find its record: there are four times as many as calls, so that seven of eight do.
	records := 4 * calls
	if err := populate(ctx, s.Addr, acquire, records); err != nil {
		return Speed{}, err
	}
	if speed.Releases, err = replay(ctx, s.Addr, release, records, calls); err != nil {
		return Speed{}, err
	}
	return speed, s.Flush(ctx)
}

// capture returns the commands that one acquire and one release send.
func capture(ctx context.Context, s *server.Server) (acquire, release []string, err error) {
	tap := wire.NewTap(true)
	p, err := rival.OpenPicket(s.Addrs(), tap)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	if err := p.Do(ctx, "limit", func() {}); err != nil { // The first calls also load the scripts.
		return nil, nil, err
	}
	tap.Take()
	var acquired [][]string
	if err := p.Do(ctx, random, func() { acquired = tap.Take() }); err != nil {
		return nil, nil, err
	}
	released := tap.Take()
	if acquire, err = single("acquire", acquired); err != nil {
		return nil, nil, err
	}
	release, err = single("release", released)
	return acquire, release, err
}

// single is the one script call among commands.
func single(what string, commands [][]string) ([]string, error) {
	if len(commands) != 1 || !strings.EqualFold(commands[0][0], "evalsha") {
		return nil, fmt.Errorf("%s sent %q, not one EVALSHA: its replay would be something else", what, commands)
	}
	return commands[0], nil
}

// populate acquires the locks whose names are the numbers below n.
func populate(ctx context.Context, addr string, acquire []string, n int) error {
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close() //nolint:errcheck // nothing is left to send
	const batch = 500
	for first := 0; first < n; first += batch {
		pipe := client.Pipeline()
		for i := first; i < min(n, first+batch); i++ {
			name := fmt.Sprintf("%012d", i) // as redis-benchmark writes them
			args := make([]any, len(acquire))
			for j, a := range acquire {
				args[j] = strings.ReplaceAll(a, random, name)
			}
			pipe.Do(ctx, args...)
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return err
		}
	}
	return nil
}

var rate = regexp.MustCompile(`([0-9.]+) requests per second`)

// replay returns the calls a second.
func replay(ctx context.Context, addr string, command []string, space, calls int) (float64, error) {
	binary, err := server.Find("redis-benchmark", "valkey-benchmark")
	if err != nil {
		return 0, err
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return 0, err
	}
	args := []string{"-h", host, "-p", port, "-q", "-c", strconv.Itoa(connections), "-P", strconv.Itoa(deep), "-r", strconv.Itoa(space), "-n", strconv.Itoa(calls)}
	out, err := exec.CommandContext(ctx, binary, append(args, command...)...).CombinedOutput() //nolint:gosec // found in PATH
	found := rate.FindAllSubmatch(out, -1)
	if err != nil || len(found) == 0 {
		return 0, fmt.Errorf("redis-benchmark: %w: %s", err, out)
	}
	return strconv.ParseFloat(string(found[len(found)-1][1]), 64)
}
