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
func (o *origin) learn(ctx context.Context, s *Store) {
	o.mu.Lock()
	asked := o.asked
	o.asked = true
	o.mu.Unlock()
	if asked {
		return
	}
	id := s.runID(ctx)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.runID = id
}

// changed reports whether another server answers than before. One that does not tell is the same.
func (o *origin) changed(ctx context.Context, s *Store) bool {
	o.mu.Lock()
	before := o.runID
	o.mu.Unlock()
	if before == "" {
		return false
	}
	now := s.runID(ctx)
	o.mu.Lock()
	defer o.mu.Unlock()
	if now != "" && now != o.runID {
		o.runID, o.moved = now, time.Now()
	}
	return !o.moved.IsZero() && time.Since(o.moved) < aftermath
}

// runID is the server's random id of this start, or "" if it does not tell.
func (s *Store) runID(ctx context.Context) string {
	raw, err := s.send(ctx, func(ctx context.Context) ([]any, error) {
		cmd := once{redis.NewCmd(ctx, "info", "server")}
		if err := s.client.Process(ctx, cmd); err != nil {
			return nil, err
		}
		return []any{cmd.Val()}, nil
	})
	if err != nil || len(raw) != 1 {
		return ""
	}
	text, _ := raw[0].(string)
	for line := range strings.Lines(text) {
		if id, ok := strings.CutPrefix(strings.TrimSpace(line), "run_id:"); ok {
			return id
		}
	}
	return ""
}
