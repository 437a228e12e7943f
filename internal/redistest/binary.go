package redistest

import (
	"os"
	"os/exec"
	"testing"
)

const install = "redis-server is not in PATH: install it with \"apt-get install -y redis-server\" or \"brew install redis\""

// findServer returns the path of a server program, or ends the test.
func findServer(t testing.TB) string {
	t.Helper()
	for _, name := range []string{"redis-server", "valkey-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	missing(t, install)
	return ""
}

// missing ends a test that lacks something: CI must have everything, so there it is a failure.
func missing(t testing.TB, what string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal(what)
	}
	t.Skip(what)
}
