package main

import (
	"errors"
	"fmt"
	"testing"

	"github.com/picket-go/picket"
)

func TestAdviceNamesTheSchemeThatTheServerNeeds(t *testing.T) {
	t.Parallel()
	const (
		node    = "the server is a node of a Cluster: begin the URL with %s+cluster:// and name some of its nodes"
		noNode  = "the server belongs to no Cluster: begin the URL with %s:// and name one server"
		support = "ERR This instance has cluster support disabled"
	)
	for _, c := range []struct{ scheme, reply, want string }{
		{"redis", "MOVED 3999 127.0.0.1:6381", fmt.Sprintf(node, "redis")},
		{"redis", "ASK 3999 127.0.0.1:6381", fmt.Sprintf(node, "redis")},
		{"rediss", "CROSSSLOT Keys in request don't hash to the same slot", fmt.Sprintf(node, "rediss")},
		{"redis+sentinel", "ERR SELECT is not allowed in cluster mode", fmt.Sprintf(node, "redis")},
		{"redis+cluster", support, fmt.Sprintf(noNode, "redis")},
		{"rediss+cluster", support, fmt.Sprintf(noNode, "rediss")},
		{"redis+cluster", "MOVED 3999 127.0.0.1:6381", ""}, // the store followed it, and gave up for another reason
	} {
		r := redisURL{scheme: c.scheme}
		// A key is anybody's text, so only the reply itself counts.
		err := fmt.Errorf("acquire %q: %w: %w", support+" MOVED ", picket.ErrUnsupported, errors.New(c.reply))
		if got := r.advice(err, defaultPrefix); got != c.want {
			t.Errorf("%s, %s: %q, want %q", c.scheme, c.reply, got, c.want)
		}
	}
}
