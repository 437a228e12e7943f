package main

import (
	"errors"
	"fmt"
	"testing"

	"github.com/picket-go/picket"
)

// storeError is an error as stores have it.
type storeError struct{ text string }

func (e storeError) Error() string { return e.text }
func (storeError) Unwrap() error   { return picket.ErrUnavailable }
func (storeError) Unsent() bool    { return false }

func TestNamesForProgramsAreLeftOut(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, want string }{
		{`redisstore: list: the server is loading`, `the server is loading`},
		{`redisstore: acquire "k": the server is loading`, `the server is loading`},
		{`redisstore: acquire "a\"b: c\\": the server is loading`, `the server is loading`},
		{`redisstore: the store was closed`, `the store was closed`},
		{`picket: store refused: filestore: open /d/k.lock: permission denied`, `open /d/k.lock: permission denied`},
		{`invalid argument: filestore: "/d" is not a directory`, `"/d" is not a directory`},
		{`the key is empty`, `the key is empty`},
		{`release of "redisstore: list: ": outcome unknown`, `release of "redisstore: list: ": outcome unknown`}, // a key is anybody's text
	} {
		if got := unnamed(c.text); got != c.want {
			t.Errorf("%s: %s, want %s", c.text, got, c.want)
		}
	}
}

func TestWhatALibraryWrapsIsExplainedLikeTheStoresOwn(t *testing.T) {
	t.Parallel()
	own := storeError{`redisstore: acquire "k": the server is loading: LOADING`}
	wrapped := fmt.Errorf(`picket: acquire "k": store is unavailable: no grant for 3s: %w: context deadline exceeded`, own)
	for _, err := range []error{own, wrapped} {
		if got, want := explain(err), "the server is loading: LOADING"; got != want {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
	if got, want := unprefixed(wrapped), `acquire "k": store is unavailable: no grant for 3s: the server is loading: LOADING: context deadline exceeded`; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := explain(errors.New("picket: disk full")), "disk full: check that it can be reached, then try again"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
