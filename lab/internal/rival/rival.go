// Package rival drives lock libraries, Picket among them, in one way, so that they can be compared.
package rival

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/picket-go/picket/lab/internal/wire"
)

// TTL is how long all of them have the server keep a lock: Picket's default.
const TTL = 30 * time.Second

// pool is the size of the connection pool to each server for those on go-redis. Its default, 10 for each CPU, is too small for 256 callers on two.
const pool = 64

// dial opens a client of go-redis, whose connections go through tap if there is one. It follows Rival.Open in what addrs are.
func dial(addrs []string, tap *wire.Tap) redis.UniversalClient {
	o := &redis.UniversalOptions{Addrs: addrs, PoolSize: pool}
	if tap != nil {
		o.Dialer = tap.Dial
	}
	return redis.NewUniversalClient(o)
}

// Client is one process' worth of a library: it has connections of its own.
type Client interface {
	// Do runs fn under the lock of key: it acquires, waiting until ctx ends, and releases. An error means that fn has not run or the release has failed.
	Do(ctx context.Context, key string, fn func()) error
	// Close ends the connections. No Do is under way.
	Close() error
}

// Rival is a library at its best documented settings.
type Rival struct {
	Name     string                               // picket, redislock
	Settings string                               // in words, with the version
	Waits    bool                                 // it has a way of waiting for a busy lock
	Sends    []string                             // commands that it sends beside calls of scripts, and that its scripts do not call
	Open     func(addrs []string) (Client, error) // one address is a server, more are the nodes of a Cluster
}

// All returns the rivals, Picket first.
func All() []Rival {
	return []Rival{picketRival(), redislockRival(), redsyncRival(), rueidislockRival(), rawRival()}
}

// Select returns those with these names, in the order of All.
func Select(names []string) ([]Rival, error) {
	var known []string
	all := All()
	for _, r := range all {
		known = append(known, r.Name)
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("no rival is called %q: there are %s", name, strings.Join(known, ", "))
		}
	}
	return slices.DeleteFunc(all, func(r Rival) bool { return !slices.Contains(names, r.Name) }), nil
}

// scripts are the commands that call a script; what the script calls in turn is counted by the server too, and is no round trip.
var scripts = []string{"evalsha", "eval"}

// RoundTrips is how many commands the library itself sent, of all that the server counted.
func (r Rival) RoundTrips(calls map[string]int64) (n int64) {
	for _, name := range slices.Concat(scripts, r.Sends) {
		n += calls[name]
	}
	return n
}
