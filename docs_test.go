package picket_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A promise whose test was renamed or deleted is no longer proved.
func TestEveryTestThatTheDocsNameExists(t *testing.T) {
	named := regexp.MustCompile("`(Test[A-Za-z0-9_]+)`")
	defined := regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9_]+)\(`)
	exists := map[string]bool{}
	docs := []string{"README.md"}
	err := filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case strings.HasSuffix(path, "_test.go"):
			text, err := os.ReadFile(path)
			for _, m := range defined.FindAllStringSubmatch(string(text), -1) {
				exists[m[1]] = true
			}
			return err
		case strings.HasPrefix(path, "docs") && strings.HasSuffix(path, ".md"):
			docs = append(docs, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, doc := range docs {
		text, err := os.ReadFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range named.FindAllStringSubmatch(string(text), -1) {
			count++
			if !exists[m[1]] {
				t.Errorf("%s names %s, which does not exist", doc, m[1])
			}
		}
	}
	if count == 0 {
		t.Error("the docs name no test")
	}
}
