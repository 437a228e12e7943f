package filestore

import (
	"context"
	"sync"
)

// turns lets one call at a time work on a key, so that a retry, a renewal and a release of one claim do not meet half-way. The zero value is ready.
type turns struct {
	mu    sync.Mutex
	byKey map[string]*turn
}

type turn struct {
	free  chan struct{} // holds one value while somebody is at work
	users int
}

// begin waits for key's turn, no longer than ctx, and returns what ends it.
func (t *turns) begin(ctx context.Context, key string) (end func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	tn := t.join(key)
	select {
	case tn.free <- struct{}{}:
		return func() { <-tn.free; t.quit(key, tn) }, nil
	case <-ctx.Done():
		t.quit(key, tn)
		return nil, ctx.Err()
	}
}

func (t *turns) join(key string) *turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	tn := t.byKey[key]
	if tn == nil {
		if t.byKey == nil {
			t.byKey = make(map[string]*turn)
		}
		tn = &turn{free: make(chan struct{}, 1)}
		t.byKey[key] = tn
	}
	tn.users++
	return tn
}

func (t *turns) quit(key string, tn *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if tn.users--; tn.users == 0 {
		delete(t.byKey, key)
	}
}
