package report

import (
	"bytes"
	"fmt"
	"io"
	"slices"

	"github.com/picket-go/picket/lab/internal/measure"
	"github.com/picket-go/picket/lab/internal/result"
)

// section is a part of the table: one load, a line for each impl, a column for each metric.
type section struct {
	title   string
	load    result.Case // its Metric is empty
	columns []column
}

type column struct {
	title, metric string
	ratio         bool // also as a multiple of Picket's
	quiet         bool // the column is left out when it is 0 for all
}

var (
	pairsColumns = []column{
		{title: "pairs/s", metric: measure.PairsPerSecond, ratio: true},
		{title: "failed", metric: measure.Failed, quiet: true},
	}
	bystanderColumns = []column{
		{title: "pairs/s meanwhile", metric: measure.PacedPerSecond},
		{title: "GET p50 µs", metric: measure.GetP50},
		{title: "GET p99 µs", metric: measure.GetP99, ratio: true},
	}
	handoffColumns = []column{
		{title: "sections/s", metric: measure.SectionsPerSecond, ratio: true},
		{title: "wait p50 ms", metric: measure.WaitP50},
		{title: "p99 ms", metric: measure.WaitP99, ratio: true},
		{title: "max ms", metric: measure.WaitMax},
		{title: "Jain", metric: measure.Jain},
		{title: "over sections", metric: measure.Sections},
		{title: "round trips/section", metric: measure.RoundTripsPerSection},
		{title: "gave up", metric: measure.GaveUp, quiet: true},
		{title: "overlaps", metric: measure.Overlaps, quiet: true},
	}
	toldColumns = []column{
		{title: "told after µs", metric: measure.ToldP50, ratio: true},
		{title: "PING µs", metric: measure.PingP50},
		{title: "round trips", metric: measure.ToldRoundTrips},
	}
	idleColumns = []column{
		{title: "% of a core", metric: measure.CPUPercent},
		{title: "commands/s/waiter", metric: measure.CommandsPerWaiterAndTime},
	}
	renewColumns = []column{
		{title: "lost", metric: measure.Lost},
		{title: "round trips/interval", metric: measure.RoundTripsPerInterval},
		{title: "pairs/s alone", metric: measure.PairsPerSecondAlone},
		{title: "pairs/s beside", metric: measure.PairsPerSecondBeside},
		{title: "ratio", metric: measure.BesideRatio},
		{title: "longest alone ms", metric: measure.LongestAlone},
		{title: "longest beside ms", metric: measure.LongestBeside},
	}
)

func sections(r *result.Run) []section {
	all := []section{
		{"Acquire + release, 256 callers, each on a key of its own", result.PairsBy(256), pairsColumns},
		{"Acquire + release, 16 callers, each on a key of its own", result.PairsBy(16), pairsColumns},
		{"Acquire + release, 1 caller", result.PairsBy(1), pairsColumns},
		{"Acquire + release on a Cluster of 3 masters, 256 callers, each on a key of its own", result.ClusterBy(256), pairsColumns},
		{"Acquire + release on a Cluster of 3 masters, 16 callers, each on a key of its own", result.ClusterBy(16), pairsColumns},
		{"A GET of somebody else, beside 256 callers at redislock's pace", result.PairsBy(256), bystanderColumns},
		{"32 workers in 4 clients on one key, holds of 1 ms", result.HandoffOf(32, 1), handoffColumns},
		{"32 workers in 4 clients on one key, holds of 0 ms", result.HandoffOf(32, 0), handoffColumns},
		{"From a release until the only waiter is told, median", result.HeldFor(1), toldColumns},
		{"64 waiters in 4 clients on a key that is held", result.HeldFor(64), idleColumns},
	}
	for _, m := range r.Measurements {
		if m.Bench == result.Renew && m.Metric == measure.Lost {
			all = append(all, section{fmt.Sprintf("%d leases held for three TTLs, 16 acquirers beside them", m.Leases), result.RenewOf(m.Leases), renewColumns})
		}
	}
	return all
}

// Table writes medians, least to greatest of the rounds, multiples of Picket's, and the goals.
func Table(w io.Writer, r *result.Run) error {
	out := &bytes.Buffer{} // to it, nothing can fail
	if machine := r.Settings(result.Machine); machine != "" {
		fmt.Fprintln(out, machine)
	}
	write := func(title string, g grid, numbers bool) {
		if len(g.lines) > 0 {
			fmt.Fprintf(out, "\n%s\n", title)
			_ = g.write(out, numbers)
		}
	}
	for _, s := range sections(r) {
		write(s.title, s.grid(r), true)
	}
	write("Goals", goalGrid(r), false)
	write("Settings", settingsGrid(r), false)
	_, err := w.Write(out.Bytes())
	return err
}

// grid is empty if r has nothing of the section.
func (s section) grid(r *result.Run) (g grid) {
	columns := slices.DeleteFunc(slices.Clone(s.columns), func(c column) bool { return !c.shown(r, s.load) })
	var impls []string
	head := []string{""}
	for _, c := range columns {
		for _, impl := range r.Impls(s.load.Of(c.metric)) {
			if !slices.Contains(impls, impl) {
				impls = append(impls, impl)
			}
		}
		head = append(head, c.title)
		if c.ratio {
			head = append(head, "of Picket's")
		}
	}
	if len(impls) == 0 {
		return g
	}
	g.add(head...)
	for _, impl := range impls {
		cells := []string{"  " + impl}
		for _, c := range columns {
			cells = append(cells, c.cells(r, s.load.By(impl))...)
		}
		g.add(cells...)
	}
	return g
}

func (c column) shown(r *result.Run, load result.Case) bool {
	impls := r.Impls(load.Of(c.metric))
	if !c.quiet {
		return len(impls) > 0
	}
	return slices.ContainsFunc(impls, func(impl string) bool {
		m, _ := r.Get(load.By(impl).Of(c.metric))
		return m.Max > 0
	})
}

// cells are the number and, where it is of use, its multiple of Picket's.
func (c column) cells(r *result.Run, at result.Case) []string {
	m, ok := r.Get(at.Of(c.metric))
	mine, also := r.Get(at.By(us).Of(c.metric))
	text, ratio := "-", "-"
	if ok {
		text = number(m.Median)
	}
	if m.Min < m.Max {
		text += fmt.Sprintf(" (%s to %s)", number(m.Min), number(m.Max))
	}
	if ok && also {
		ratio = times(m.Median / mine.Median)
	}
	if !c.ratio {
		return []string{text}
	}
	return []string{text, ratio}
}

func goalGrid(r *result.Run) (g grid) {
	for _, goal := range goals() {
		v, verdict := goal.verdict(r)
		if verdict == unmeasured {
			continue
		}
		if len(g.lines) == 0 {
			g.add("  Picket", "measured", "must", "aim", "")
		}
		aim := "-"
		if goal.hasAim {
			aim = goal.bar(goal.aim)
		}
		g.add("  "+goal.name, number(v)+goal.unit, goal.bar(goal.must), aim, verdict)
	}
	return g
}

func settingsGrid(r *result.Run) (g grid) {
	for _, a := range r.About {
		if a.Impl != result.Machine {
			g.add("  "+a.Impl, a.Settings)
		}
	}
	return g
}
