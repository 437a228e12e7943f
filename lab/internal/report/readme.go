package report

import (
	"errors"
	"fmt"
	"strings"

	"github.com/picket-go/picket/lab/internal/measure"
	"github.com/picket-go/picket/lab/internal/result"
)

// The part of the README between these lines is generated.
const (
	Begin = "<!-- bench:begin -->"
	End   = "<!-- bench:end -->"
)

// ErrNoBlock says that a text has no place for the numbers.
var ErrNoBlock = errors.New("no lines " + Begin + " and " + End)

// Readme returns text with the part between its marks made from r.
func Readme(text string, r *result.Run) (string, error) {
	before, rest, begun := strings.Cut(text, Begin)
	_, after, ended := strings.Cut(rest, End)
	if !begun || !ended {
		return "", ErrNoBlock
	}
	return before + Begin + "\n" + block(r) + End + after, nil
}

// line is one of the README's table: what a reader asks, and how to read the ratio.
type line struct {
	title string
	c     result.Case
	unit  string
	plain bool // without ratio: its numbers speak for themselves
}

func lines() []line {
	one, zero := result.HandoffOf(32, 1), result.HandoffOf(32, 0)
	return []line{
		{"256 callers, 256 keys: acquire + release", result.PairsBy(256).Of(measure.PairsPerSecond), "/s", false},
		{"16 callers, 16 keys", result.PairsBy(16).Of(measure.PairsPerSecond), "/s", false},
		{"1 caller", result.PairsBy(1).Of(measure.PairsPerSecond), "/s", false},
		{"256 callers, 256 keys, on a Cluster of 3 masters", result.ClusterBy(256).Of(measure.PairsPerSecond), "/s", false},
		{"16 callers, 16 keys, on that Cluster", result.ClusterBy(16).Of(measure.PairsPerSecond), "/s", false},
		{"32 workers, 1 key, 1 ms of work: done", one.Of(measure.SectionsPerSecond), "/s", false},
		{"… 99 of 100 wait at most", one.Of(measure.WaitP99), " ms", false},
		{"… the longest wait", one.Of(measure.WaitMax), " ms", false},
		{"… fairness (Jain; 1 is equal shares)", one.Of(measure.Jain), "", true},
		{"… round trips for each turn", one.Of(measure.RoundTripsPerSection), "", true},
		{"32 workers, 1 key, no work: done", zero.Of(measure.SectionsPerSecond), "/s", false},
		{"from a release until the waiter is told", result.HeldFor(1).Of(measure.ToldP50), " µs", false},
		{"64 waiters: commands a second for each", result.HeldFor(64).Of(measure.CommandsPerWaiterAndTime), "", true},
	}
}

// shown are the columns beside Picket's, with the names that readers know.
var shown = []struct{ impl, title string }{
	{"redislock", "bsm/redislock"},
	{"redsync", "redsync"},
	{"rueidislock", "rueidislock"},
}

func block(r *result.Run) string {
	var b strings.Builder
	b.WriteString("| |Picket|")
	for _, s := range shown {
		fmt.Fprintf(&b, "%s|", s.title)
	}
	b.WriteString("\n|---|---:|---:|---:|---:|\n")
	for _, l := range lines() {
		mine, ok := r.Get(l.c.By(us))
		if !ok {
			continue
		}
		fmt.Fprintf(&b, "|%s|**%s%s**|", l.title, number(mine.Median), l.unit)
		for _, s := range shown {
			theirs, ok := r.Get(l.c.By(s.impl))
			switch {
			case !ok:
				b.WriteString("-|")
			case l.plain:
				fmt.Fprintf(&b, "%s%s|", number(theirs.Median), l.unit)
			default:
				fmt.Fprintf(&b, "%s%s (%s)|", number(theirs.Median), l.unit, ratio(theirs.Median/mine.Median))
			}
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "\nMedians; in brackets the multiple of Picket's. %s. Made by `go run ./lab/bench`.\n", strings.TrimSuffix(r.Settings(result.Machine), "."))
	return b.String()
}

func ratio(v float64) string { return strings.Replace(times(v), "x", "×", 1) }
