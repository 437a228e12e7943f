package redisstore

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// aftermath is how long after another server was found to answer a missing record is put down to that: batches of renewals learn one after the other.
const aftermath = time.Minute

// origin is which server process answers. A record that is missing on another server than before was lost in a failover, or in a restart.
type origin struct {
	mu    sync.Mutex
	asked bool // with or without an answer
	runID string
	moved time.Time // when another server was found to answer
}

// learn asks the server once, after the first renewal: leases that end before need no reason.
func (o *origin) learn(ctx context.Context, n *node) {
	o.mu.Lock()
	asked := o.asked
	o.asked = true
	o.mu.Unlock()
	if asked {
		return
	}
	id := n.runID(ctx)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.runID = id
}

// changed reports whether another server answers than before. One that does not tell is the same.
func (o *origin) changed(ctx context.Context, n *node) bool {
	o.mu.Lock()
	before := o.runID
	o.mu.Unlock()
	if before == "" {
		return false
	}
	now := n.runID(ctx)
	o.mu.Lock()
	defer o.mu.Unlock()
	if now != "" && now != o.runID {
		o.runID, o.moved = now, time.Now()
	}
	return !o.moved.IsZero() && time.Since(o.moved) < aftermath
}

// promote notes that the map names n as a master.
func (n *node) promote() {
	if n.replica.Load() && n.replica.CompareAndSwap(true, false) {
		n.promoted.Store(time.Now().UnixNano())
	}
}

// failedOver reports whether a record that n has not got may have been lost with another server, or with an earlier life of this one.
func (n *node) failedOver(ctx context.Context) bool {
	return time.Since(time.Unix(0, n.promoted.Load())) < aftermath || n.origin.changed(ctx, n)
}

// runID is the server's random id of this start, or "" if it does not tell.
func (n *node) runID(ctx context.Context) string {
	text, err := send(ctx, n.store, callBound, func(ctx context.Context) (string, error) {
		cmd := once{redis.NewCmd(ctx, "info", "server")}
		if err := n.client.Process(ctx, cmd); err != nil {
			return "", err
		}
		return cmd.Text()
	})
	if err != nil {
		return ""
	}
	for line := range strings.Lines(text) {
		if id, ok := strings.CutPrefix(strings.TrimSpace(line), "run_id:"); ok {
			return id
		}
	}
	return ""
}
