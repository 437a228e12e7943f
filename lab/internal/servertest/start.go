// Package servertest starts servers for tests, and ends them with the test.
package servertest

import (
	"errors"
	"os"
	"testing"

	"github.com/picket-go/picket/lab/internal/server"
)

// Start runs a server. A test that cannot have one is skipped; CI must have everything, so there it fails.
func Start(t testing.TB) *server.Server {
	t.Helper()
	s, err := server.Start(t.Context())
	need(t, err)
	t.Cleanup(s.Close)
	return s
}

// StartCluster runs a Cluster, as Start runs a server.
func StartCluster(t testing.TB, masters int) *server.Cluster {
	t.Helper()
	c, err := server.StartCluster(t.Context(), masters)
	need(t, err)
	t.Cleanup(c.Close)
	return c
}

func need(t testing.TB, err error) {
	t.Helper()
	if errors.Is(err, server.ErrMissing) && os.Getenv("CI") == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
}
