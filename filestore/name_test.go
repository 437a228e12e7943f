package filestore

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestSimpleKeysHaveReadableNames(t *testing.T) {
	for key, want := range map[string]string{
		"nightly": "nightly", "job-42_a.b": "job-42_a.b", "A": "%41", "a/b": "a%2fb", "..": "%2e.", ".x": "%2ex", "-n": "%2dn", "~floor": "%7efloor",
		"con": "%63on", "con.x": "%63on.x", "lpt1.a.b": "%6cpt1.a.b", "console": "console", "ü": "%c3%bc", " ": "%20", "a%2fb": "a%252fb", "\x00": "%00",
	} {
		if got := encode(key); got != want {
			t.Errorf("encode(%q) = %q, want %q", key, got, want)
		}
	}
}

func TestLongNamesAreCutBetweenEscapes(t *testing.T) {
	for n := range 4 {
		name := encode(strings.Repeat("a", n) + strings.Repeat("Ä", 200))
		start, hash, ok := strings.Cut(name, "~")
		if !ok || len(hash) != 52 || len(start) != n+(readable-n)/3*3 {
			t.Errorf("%d: %q", n, name)
		}
	}
}

// TestDistinctKeysHaveDistinctNames holds on file systems that ignore case or normalise Unicode, and on Windows.
func TestDistinctKeysHaveDistinctNames(t *testing.T) {
	key := rapid.OneOf(
		rapid.StringMatching(`[a-cA-C./%~ -]{1,4}`),
		rapid.StringMatching(`(con|nul|com1|~floor|floor|\.lock|\.json)(\.[a-z]{0,3})?`),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 1, 512), func(b []byte) string { return string(b) }),
		rapid.Custom(func(t *rapid.T) string {
			return strings.Repeat(rapid.SampledFrom([]string{"a", "A", "%"}).Draw(t, "letter"), rapid.IntRange(1, 512).Draw(t, "n"))
		}),
	)
	rapid.Check(t, func(t *rapid.T) {
		a, b := key.Draw(t, "a"), key.Draw(t, "b")
		x, y := encode(a), encode(b)
		if (a == b) != strings.EqualFold(x, y) {
			t.Fatalf("%q and %q are %q and %q", a, b, x, y)
		}
		for _, name := range []string{x, y} {
			stem, _, _ := strings.Cut(name, ".")
			for _, r := range reserved {
				if stem == r {
					t.Fatalf("%q is a device on Windows", name)
				}
			}
			if len(name) > longest || name == floorName || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-_.%~") != "" || strings.HasPrefix(name, ".") {
				t.Fatalf("name %q", name)
			}
		}
	})
}
