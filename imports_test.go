package picket_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const modulePath = "github.com/picket-go/picket"

// TestImportRules keeps the layout of DESIGN 5: what a user does not use is neither downloaded nor read. .golangci.yml says the same in the editor; here stand the
// rules that also hold for what imports import. The name of a subtest is the reason of its rule.
func TestImportRules(t *testing.T) {
	t.Parallel()
	packages := workspacePackages(t)

	t.Run("fence imports the standard library only, so that code at the resource needs no lock", func(t *testing.T) {
		t.Parallel()
		fence, ok := packages[modulePath+"/fence"]
		if !ok {
			t.Fatal("there is no package fence")
		}
		fence.forbid(t, fence.Deps, external)
	})
	t.Run("the root package imports fence and the standard library only, so that a store brings its client and nobody else does", func(t *testing.T) {
		t.Parallel()
		packages[modulePath].forbid(t, packages[modulePath].Deps, func(dep string) bool {
			return external(dep) && !below(dep, "fence") && !below(dep, "internal")
		})
	})
	t.Run("no store imports another, so that one can change without the others", func(t *testing.T) {
		t.Parallel()
		stores := []string{"memstore", "filestore", "redisstore", "redisquorum", "pgstore", "etcdstore"}
		for _, store := range stores {
			p := packages[modulePath+"/"+store]
			p.forbid(t, p.Deps, func(dep string) bool {
				return slices.ContainsFunc(stores, func(other string) bool {
					builtOn := store == "redisquorum" && other == "redisstore" // N of them and a majority
					return other != store && !builtOn && below(dep, other)
				})
			})
		}
	})
	t.Run("nobody imports cmd or lab, which promise nothing", func(t *testing.T) {
		t.Parallel()
		for _, p := range packages {
			for _, private := range []string{"cmd", "lab"} {
				if !below(p.ImportPath, private) {
					p.forbid(t, p.withTests(), func(dep string) bool { return below(dep, private) })
				}
			}
		}
	})
	t.Run("a nested published module imports no internal package of the root, because it cannot choose the version of it", func(t *testing.T) {
		t.Parallel()
		for _, p := range packages {
			if p.Module.Path != modulePath && !below(p.Module.Path, "lab") {
				p.forbid(t, p.withTests(), func(dep string) bool { return below(dep, "internal") })
			}
		}
	})
	t.Run("the root module requires none of the others, so that their clients stay out of its users' builds", func(t *testing.T) {
		t.Parallel()
		var mod struct{ Require []struct{ Path string } }
		if err := json.Unmarshal(runGo(t, nil, "mod", "edit", "-json", "go.mod"), &mod); err != nil {
			t.Fatal(err)
		}
		for _, r := range mod.Require {
			if below(r.Path, "") {
				t.Errorf("go.mod requires %s", r.Path)
			}
		}
	})
	t.Run("a user of the root module gets fewer than 25 modules in the build list", func(t *testing.T) {
		t.Parallel()
		// The root's own list is that of a user who imports all of it.
		modules := strings.Fields(string(runGo(t, []string{"GOWORK=off"}, "list", "-m", "-f", "{{.Path}}", "all")))
		if len(modules) >= 25 {
			t.Errorf("there are %d:\n%s", len(modules), strings.Join(modules, "\n"))
		}
	})
}

// goPackage is what "go list -json" says of a package.
type goPackage struct {
	ImportPath   string
	Module       struct{ Path string }
	Imports      []string // without those of tests
	Deps         []string // Imports, and what they import
	TestImports  []string
	XTestImports []string
}

func (p goPackage) withTests() []string {
	return slices.Concat(p.Imports, p.TestImports, p.XTestImports)
}

// forbid fails the test for each of p's imports that is bad.
func (p goPackage) forbid(t *testing.T, imports []string, bad func(path string) bool) {
	t.Helper()
	slices.Sort(imports)
	for _, path := range slices.Compact(imports) {
		if bad(path) {
			t.Errorf("%s imports %s", p.ImportPath, path)
		}
	}
}

// external reports whether path is outside of the standard library: its first element has a dot, as "go help importpath" keeps it.
func external(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return strings.Contains(first, ".")
}

// below reports whether path is the package or module at folder of this repository, or in a folder of it.
func below(path, folder string) bool {
	at := strings.TrimSuffix(modulePath+"/"+folder, "/")
	return path == at || strings.HasPrefix(path, at+"/")
}

// workspacePackages lists the packages of all modules, with their imports on every system that we build for.
func workspacePackages(t *testing.T) map[string]goPackage {
	t.Helper()
	packages := map[string]goPackage{}
	for _, system := range []string{"linux", "darwin", "windows"} {
		out := json.NewDecoder(bytes.NewReader(runGo(t, []string{"GOOS=" + system, "CGO_ENABLED=0"}, "list", "-json", "work")))
		for {
			var p goPackage
			if err := out.Decode(&p); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			seen := packages[p.ImportPath]
			p.Imports = append(p.Imports, seen.Imports...)
			p.Deps = append(p.Deps, seen.Deps...)
			p.TestImports = append(p.TestImports, seen.TestImports...)
			p.XTestImports = append(p.XTestImports, seen.XTestImports...)
			packages[p.ImportPath] = p
		}
	}
	return packages
}

// runGo runs the go command at the top of the repository, with its workspace, and returns what it prints.
func runGo(t *testing.T, env []string, args ...string) []byte {
	t.Helper()
	top, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Env = slices.Concat(os.Environ(), []string{"GOWORK=" + filepath.Join(top, "go.work"), "GOFLAGS=-buildvcs=false"}, env)
	out, err := cmd.Output()
	if err != nil {
		stderr := ""
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			stderr = string(exit.Stderr)
		}
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, stderr)
	}
	return out
}
