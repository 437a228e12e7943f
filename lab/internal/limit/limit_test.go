package limit

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/picket-go/picket/lab/internal/server"
)

func start(t *testing.T) *server.Server {
	t.Helper()
	s, err := server.Start(t.Context())
	if errors.Is(err, server.ErrMissing) && os.Getenv("CI") == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func TestCaptureFindsOneScriptCallEach(t *testing.T) {
	t.Parallel()
	s := start(t)
	acquire, release, err := capture(t.Context(), s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(acquire)
	t.Log(release)
	isName := func(word string) bool { return strings.Contains(word, random) }
	if slices.Equal(acquire, release) || !slices.ContainsFunc(acquire, isName) || !slices.ContainsFunc(release, isName) {
		t.Errorf("want two calls, each on keys named %s:\n%q\n%q", random, acquire, release)
	}
}
