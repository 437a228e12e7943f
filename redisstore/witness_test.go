package redisstore_test

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// stay is one section as its process told it to the witness, which is a file and not the lock: from when until when it knew that it held the key, by the wall clock that
// all processes of a machine share. One that was killed inside has not told its end: then it is the deadline it had when it came in.
type stay struct {
	key         string
	token       int64
	pid         int
	from, until int64 // ns
	killed      bool
	promoted    bool // by a server that was promoted meanwhile
}

func readStays(t testing.TB, file string) (all []stay) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return parseStays(t, string(text))
}

func parseStays(t testing.TB, text string) (all []stay) {
	t.Helper()
	inside := map[string]stay{}
	for line := range strings.Lines(text) {
		var what string
		var s stay
		if n, err := fmt.Sscan(line, &what, &s.key, &s.token, &s.pid, &s.from, &s.until); n != 6 {
			t.Fatalf("the witness has the line %q: %v", line, err)
		}
		if id := fmt.Sprint(s.key, s.token); what == "enter" {
			if other, twice := inside[id]; twice {
				t.Errorf("%q: processes %d and %d have the token %d", s.key, other.pid, s.pid, s.token)
			}
			s.killed = true
			inside[id] = s
		} else {
			delete(inside, id)
			all = append(all, s)
		}
	}
	for _, s := range inside {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b stay) int { return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.from, b.from)) })
	return all
}

// unruly lists what must not be: two inside a key at once, unless one of them was let in by a server that died and the other one by the server that was promoted for it; and
// tokens that do not rise from section to section. Who was killed inside may not have worked to its deadline, but nobody may have come before.
func unruly(all []stay) (faults []string) {
	type scene struct {
		key      string
		promoted bool
	}
	longest := map[scene]stay{}
	for i, s := range all {
		here := scene{s.key, s.promoted}
		if last := longest[here]; s.from < last.until {
			faults = append(faults, fmt.Sprintf("%q: process %d came in with token %d %v before process %d with token %d was out",
				s.key, s.pid, s.token, time.Duration(last.until-s.from), last.pid, last.token))
		}
		if s.until > longest[here].until {
			longest[here] = s
		}
		if i == 0 || all[i-1].key != s.key {
			continue
		}
		if before := all[i-1]; s.token <= before.token {
			faults = append(faults, fmt.Sprintf("%q: token %d of process %d follows %d of process %d", s.key, s.token, s.pid, before.token, before.pid))
		}
	}
	return faults
}

// markPromoted notes whom the server has let in that was promoted when the one with the key had died: their tokens are above the time of that death.
func markPromoted(all []stay, key string, died time.Time) {
	for i, s := range all {
		all[i].promoted = s.key == key && s.token > died.UnixMicro()
	}
}

// TestTheWitnessSeesWhatMustNotBe.
func TestTheWitnessSeesWhatMustNotBe(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, text, want string
	}{
		{"one after the other", "enter a 1 7 100 900\nleave a 1 7 100 110\nenter a 2 8 110 910\nleave a 2 8 110 120\n", ""},
		{"one beside the other on another key", "enter a 1 7 100 900\nenter b 1 8 105 905\nleave b 1 8 105 106\nleave a 1 7 100 110\n", ""},
		{"the lines of two come in the wrong order", "enter a 2 8 110 910\nenter a 1 7 100 900\nleave a 1 7 100 110\nleave a 2 8 110 120\n", ""},
		{"both inside", "enter a 1 7 100 900\nenter a 2 8 109 909\nleave a 1 7 100 110\nleave a 2 8 109 120\n", "came in"},
		{"the third beside the first", "enter a 1 7 1 9\nenter a 2 8 2 9\nleave a 2 8 2 3\nenter a 3 9 4 9\nleave a 3 9 4 5\nleave a 1 7 1 6\n", "process 9 came in"},
		{"before the deadline of one that was killed", "enter a 1 7 100 900\nenter a 2 8 899 999\nleave a 2 8 899 902\n", "came in"},
		{"after the deadline of one that was killed", "enter a 1 7 100 900\nenter a 2 8 900 999\nleave a 2 8 900 902\n", ""},
		{"a token twice", "enter a 5 7 100 900\nleave a 5 7 100 110\nenter a 5 8 110 910\nleave a 5 8 110 120\n", "token 5"},
		{"a token that falls", "enter a 5 7 100 900\nleave a 5 7 100 110\nenter a 4 8 110 910\nleave a 4 8 110 120\n", "token 4"},
	} {
		faults := unruly(parseStays(t, tt.text))
		if got := strings.Join(faults, "; "); (tt.want == "") != (got == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// TestTheWitnessExcusesOnlyTheTwoSidesOfAPromotion.
func TestTheWitnessExcusesOnlyTheTwoSidesOfAPromotion(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, text, want string
	}{
		{"one of each side", "enter a 9 7 100 900\nenter a 11 8 105 905\nleave a 9 7 100 110\nleave a 11 8 105 120\n", ""},
		{"two of the dead server", "enter a 8 7 100 900\nenter a 9 8 105 905\nleave a 8 7 100 110\nleave a 9 8 105 120\n", "came in"},
		{"two of the promoted one", "enter a 11 7 100 900\nenter a 12 8 105 905\nleave a 11 7 100 110\nleave a 12 8 105 120\n", "came in"},
		{
			"two of the promoted one, and one of the dead between", "enter a 8 7 100 900\nenter a 11 8 101 901\nleave a 8 7 100 200\nleave a 11 8 101 110\nenter a 12 9 109 909\nleave a 12 9 109 120\n",
			"process 9 came in",
		},
		{"a token that falls", "enter a 11 7 100 900\nleave a 11 7 100 110\nenter a 9 8 120 920\nleave a 9 8 120 130\n", "token 9"},
		{"another key", "enter b 9 7 100 900\nenter b 11 8 105 905\nleave b 9 7 100 110\nleave b 11 8 105 120\n", "came in"},
	} {
		stays := parseStays(t, tt.text)
		markPromoted(stays, "a", time.UnixMicro(10))
		if got := strings.Join(unruly(stays), "; "); (tt.want == "") != (got == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}
