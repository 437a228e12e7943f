package limit

import (
	"slices"
	"strings"
	"testing"

	"github.com/picket-go/picket/lab/internal/servertest"
)

func TestCaptureFindsOneScriptCallEach(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	acquire, release, err := capture(t.Context(), s)
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
