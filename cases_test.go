package picket_test

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// coveredCases are the faults from other locks' public trackers that this code claims to have right. Each has a test, and the id stands alone ("L1", never "L1-L5") in
// a comment of it, so that whoever reads the case finds the proof.
var coveredCases = strings.Fields(`
	L1 L2 L3 L4 L5 L7 L9 L11 L12 L13 L15 L17 L18
	C1 C2 C4 C6
	K1
	W2 W3 W4 W5 Q1 Q4 F1 F2 F3 F5 D1 D3 C26 GL-53 GL-60 GL-62 GL-65
	GL-01 GL-02 GL-04 GL-06 GL-08 GL-09
	GL-11 GL-12 GL-14 GL-15 GL-17
	GL-18 GL-20 GL-21 GL-23 GL-25 GL-26 GL-28 GL-29 GL-30 GL-32
	GL-36 GL-37 GL-38 GL-40 GL-41 GL-43 GL-45 GL-47
	GL-67 GL-69 GL-70
	GL-71 GL-72 GL-74 GL-76
`)

func TestEveryCoveredCaseHasATestThatNamesIt(t *testing.T) {
	t.Parallel()
	word := regexp.MustCompile(`\b(?:GL-|[A-Z])[0-9]+\b`)
	named := map[string]bool{}
	for _, f := range repositoryFiles(t) {
		for _, comment := range f.testComments(t) {
			for _, id := range word.FindAllString(comment, -1) {
				named[id] = true
			}
		}
	}
	missing := slices.DeleteFunc(slices.Clone(coveredCases), func(id string) bool { return named[id] })
	if len(missing) > 0 {
		t.Errorf("%d of %d cases are in no comment of a test: %s", len(missing), len(coveredCases), strings.Join(missing, " "))
	}
}

// testComments returns the comments of a test, of the conformance suite, or of a test's script; none for other files and for this one's list.
func (f sourceFile) testComments(t *testing.T) []string {
	t.Helper()
	var comments []string
	switch {
	case f.name == "cases_test.go":
	case path.Ext(f.name) != ".go":
		for line := range strings.Lines(string(f.text)) {
			if strings.HasPrefix(line, "#") {
				comments = append(comments, line)
			}
		}
	case f.isTest() || strings.HasPrefix(f.name, "locktest/"):
		_, syntax := f.parse(t)
		for _, group := range syntax.Comments {
			comments = append(comments, group.Text())
		}
	}
	return comments
}
