package redisstore

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/picket-go/picket"
)

// TestNamesNeverCollideAndKeepToOneSlot covers GL-14 for names: no name reaches into another's keys, whatever it is made of.
func TestNamesNeverCollideAndKeepToOneSlot(t *testing.T) {
	t.Parallel()
	s := &Store{set: settings{prefix: "lock:"}}
	names := rapid.StringOfN(rapid.SampledFrom([]rune("ab%{}:257BDfence\x00")), 0, 12, -1)
	rapid.Check(t, func(t *rapid.T) {
		a, b := names.Draw(t, "a"), names.Draw(t, "b")
		ours := s.keys(nil, a)
		for _, key := range ours {
			// The hash tag is what stands in the first pair of braces, and all of it must be the name.
			_, rest, _ := strings.Cut(key, "{")
			tag, _, ok := strings.Cut(rest, "}")
			if !ok || tag != escaper.Replace(a) {
				t.Fatalf("%q has the hash tag %q, want %q", key, tag, escaper.Replace(a))
			}
		}
		if back, ok := s.name(ours[0]); !ok || back != a {
			t.Fatalf("the name of %q is %q, want %q", ours[0], back, a)
		}
		for _, key := range ours[1:] {
			if name, ok := s.name(key); ok {
				t.Fatalf("%q passes for the record of %q", key, name)
			}
		}
		if a == b {
			return
		}
		for _, x := range ours {
			for _, y := range s.keys(nil, b) {
				if x == y {
					t.Fatalf("%q and %q share the key %q", a, b, x)
				}
			}
		}
	})
}

func TestARecordIsReadAsItWasWrittenWhateverTheHolderIsCalled(t *testing.T) {
	t.Parallel()
	text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", " ", "a token=1", "x=y", "%20", "\n", "\xff", "ü", "state=held"}))
	rapid.Check(t, func(t *rapid.T) {
		h := picket.Holder{PID: rapid.IntRange(0, 1<<22).Draw(t, "pid"), Host: text.Draw(t, "host"), Label: text.Draw(t, "label")}
		line := id("A") + " token=1764000000000000 since=1764000000123 " + string(appendHeld(nil, 30000, 1000, h))
		if strings.ContainsAny(line, "\n\x00") || strings.Count(line, " ") != 9 {
			t.Fatalf("the holder forges a field: %q", line)
		}
		r, ok := parseRecord(line)
		if !ok {
			t.Fatalf("%q is not read", line)
		}
		want := h
		want.ID, want.Since = id("A"), time.UnixMilli(1764000000123)
		if r.holder != want || r.token != 1764000000000000 || r.ttl != 30*time.Second || r.delay != time.Second || r.state != stateHeld {
			t.Fatalf("%q is read as %+v", line, r)
		}
	})
	for _, bad := range []string{"", "mine", strings.Repeat("A", 26), id("A") + " nonsense", id("A") + " token=x state=held", "short token=1 state=held"} {
		if r, ok := parseRecord(bad); ok {
			t.Errorf("%q is read as %+v", bad, r)
		}
	}
}
