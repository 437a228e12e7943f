package locktest_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/picket-go/picket"
	"github.com/picket-go/picket/locktest"
)

// brokenEnv names the rule that the store of a child process breaks. A suite that is expected to fail needs a process of its own.
const brokenEnv = "PICKET_LOCKTEST_BROKEN"

func TestTheSuiteFailsOnEachBrokenStore(t *testing.T) {
	if os.Getenv(brokenEnv) != "" {
		t.Skip("this is the child")
	}
	for _, b := range brokenStores() {
		t.Run(b.rule, func(t *testing.T) {
			t.Parallel()
			if out := childOutput(t, b); !strings.Contains(out, "--- FAIL: TestABrokenStoreAsChild/"+inName(b.caught)+" (") {
				t.Fatalf("a store that breaks %q does not fail %q:\n%s", b.rule, b.caught, out)
			}
		})
	}
}

// childOutput runs the check that must catch b, in a process that must end as failed tests do.
func childOutput(t *testing.T, b broken) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	theme, says, _ := strings.Cut(b.caught, "/")
	pattern := "^TestABrokenStoreAsChild$/^" + regexp.QuoteMeta(theme) + "$/^" + regexp.QuoteMeta(inName(says)) + "$"
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.v", "-test.count=1", "-test.run="+pattern)
	cmd.Env = append(os.Environ(), brokenEnv+"="+b.rule)
	out, err := cmd.CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 1 {
		t.Fatalf("the child ended with %v, want exit code 1 of a failed test:\n%s", err, out)
	}
	return string(out)
}

// inName is what package testing makes of a subtest's name.
func inName(s string) string { return strings.ReplaceAll(s, " ", "_") }

// TestABrokenStoreAsChild is what TestTheSuiteFailsOnEachBrokenStore runs in a process of its own.
func TestABrokenStoreAsChild(t *testing.T) {
	rule := os.Getenv(brokenEnv)
	if rule == "" {
		t.Skip("runs only as the child of TestTheSuiteFailsOnEachBrokenStore")
	}
	for _, b := range brokenStores() {
		if b.rule == rule {
			client := b.clients()
			locktest.Run(t, locktest.Config{New: func(*testing.T) picket.Store { return client() }})
			return
		}
	}
	t.Skipf("no broken store breaks %q", rule)
}
