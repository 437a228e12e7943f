package picket_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The program in the README compiles, runs, and prints what a reader expects.
func TestReadmeProgramRuns(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```go\n(package main.*?)```").FindSubmatch(readme)
	if block == nil {
		t.Fatal("README.md has no program")
	}
	root, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	program := strings.ReplaceAll(string(block[1]), "/tmp/picket-demo", filepath.ToSlash(t.TempDir()))
	// Inside the module, so that it builds with what the module requires; the folder's name hides it from ./... patterns.
	dir, err := os.MkdirTemp(root, "_readme") //nolint:usetesting // not below the module
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	file := filepath.Join(dir, "main.go")
	if err := os.WriteFile(file, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "go", "run", file).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if want := "working, token is positive: true\n"; string(out) != want {
		t.Errorf("the README's program printed %q, want %q", out, want)
	}
}
