package picket_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestSourceRules checks what a file may contain. The name of a subtest is the rule.
func TestSourceRules(t *testing.T) {
	t.Parallel()
	var files []sourceFile
	for _, f := range repositoryFiles(t) {
		if path.Ext(f.name) == ".go" {
			files = append(files, f)
		}
	}

	t.Run("a file has at most 400 lines, a test at most 800", func(t *testing.T) {
		t.Parallel()
		for _, f := range files {
			limit := 400
			if f.isTest() {
				limit = 800
			}
			if lines := bytes.Count(f.text, []byte("\n")); lines > limit {
				t.Errorf("%s has %d lines: which noun in it wants a file of its own?", f.name, lines)
			}
		}
	})
	t.Run("a package is named for what it does", func(t *testing.T) {
		t.Parallel()
		empty := []string{"util", "utils", "common", "helper", "helpers", "manager", "misc", "shared"}
		for _, f := range files {
			_, syntax := f.parse(t)
			if name := strings.TrimSuffix(syntax.Name.Name, "_test"); slices.Contains(empty, name) {
				t.Errorf("%s is in package %s, a name that says nothing", f.name, name)
			}
		}
	})
	t.Run("the library makes no context, because the caller's has the deadline and the values", func(t *testing.T) {
		t.Parallel()
		forbidUse(t, files, "context.Background", "context.TODO")
	})
	t.Run("the library prints and logs nothing, because that is an Observer's choice", func(t *testing.T) {
		t.Parallel()
		forbidUse(t, files, "fmt.Print", "fmt.Printf", "fmt.Println", "os.Stdout", "os.Stderr", "log.*",
			"slog.Default", "slog.Debug", "slog.Info", "slog.Warn", "slog.Error", "slog.Log", "slog.LogAttrs")
	})
}

// forbidUse fails the test for each of these names ("package.Name" or "package.*") that library code uses.
func forbidUse(t *testing.T, files []sourceFile, names ...string) {
	t.Helper()
	for _, f := range files {
		if !f.isLibrary() {
			continue
		}
		positions, syntax := f.parse(t)
		ast.Inspect(syntax, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			pkg, ok := sel.X.(*ast.Ident)
			if !ok || !imports(syntax, pkg.Name) {
				return true
			}
			if slices.Contains(names, pkg.Name+"."+sel.Sel.Name) || slices.Contains(names, pkg.Name+".*") {
				t.Errorf("%s uses %s.%s", positions.Position(sel.Pos()), pkg.Name, sel.Sel.Name)
			}
			return true
		})
	}
}

// imports reports whether name is a package in file, and not a variable that is called like one.
func imports(file *ast.File, name string) bool {
	return slices.ContainsFunc(file.Imports, func(spec *ast.ImportSpec) bool {
		return spec.Name == nil && path.Base(strings.Trim(spec.Path.Value, `"`)) == name
	})
}

// sourceFile is a file of the repository; its name has slashes and begins at the top.
type sourceFile struct {
	name string
	text []byte
}

func (f sourceFile) isTest() bool { return strings.HasSuffix(f.name, "_test.go") }

// isLibrary reports whether users' programs run the code: no test, no command, nothing of the lab.
func (f sourceFile) isLibrary() bool {
	return !f.isTest() && !strings.HasPrefix(f.name, "cmd/") && !strings.HasPrefix(f.name, "lab/")
}

func (f sourceFile) parse(t *testing.T) (*token.FileSet, *ast.File) {
	t.Helper()
	positions := token.NewFileSet()
	syntax, err := parser.ParseFile(positions, f.name, f.text, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	return positions, syntax
}

// repositoryFiles reads all Go files, and the scripts and tables in testdata folders.
func repositoryFiles(t *testing.T) []sourceFile {
	t.Helper()
	var files []sourceFile
	err := filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && name != "." && strings.HasPrefix(entry.Name(), ".") {
			return fs.SkipDir
		}
		slashed := filepath.ToSlash(name)
		isData := slices.Contains([]string{".txt", ".txtar"}, path.Ext(slashed)) && slices.Contains(strings.Split(slashed, "/"), "testdata")
		if !entry.Type().IsRegular() || path.Ext(slashed) != ".go" && !isData {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		files = append(files, sourceFile{slashed, text})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
