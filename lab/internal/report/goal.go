// Package report says what a run means: a table, the goals, a part of the README and a picture.
package report

import (
	"math"
	"slices"
	"strconv"

	"github.com/picket-go/picket/lab/internal/measure"
	"github.com/picket-go/picket/lab/internal/result"
)

const us = "picket"

// goal is a number that Picket must reach, and one that it should.
type goal struct {
	name      string
	atMost    bool // else at least
	must, aim float64
	hasAim    bool
	unit      string
	value     func(*result.Run) (float64, bool) // false: not measured
}

const (
	met        = "met"
	mustMissed = "MUST MISSED"
	aimMissed  = "must met, aim missed"
	unmeasured = "not measured"
)

func (g goal) verdict(r *result.Run) (value float64, verdict string) {
	v, ok := g.value(r)
	switch {
	case !ok || math.IsNaN(v) || math.IsInf(v, 0):
		return 0, unmeasured
	case !g.reached(v, g.must):
		return v, mustMissed
	case g.hasAim && !g.reached(v, g.aim):
		return v, aimMissed
	}
	return v, met
}

func (g goal) reached(v, bar float64) bool {
	if g.atMost {
		return v <= bar
	}
	return v >= bar
}

func atLeast(name, unit string, must, aim float64, value func(*result.Run) (float64, bool)) goal {
	return goal{name: name, unit: unit, must: must, aim: aim, hasAim: aim != 0, value: value}
}

func atMost(name, unit string, must, aim float64, value func(*result.Run) (float64, bool)) goal {
	g := atLeast(name, unit, must, aim, value)
	g.atMost = true
	return g
}

// goals are those of the plan, an aim of 0 is none.
func goals() []goal {
	crowd, few := result.PairsBy(256).Of(measure.PairsPerSecond), result.PairsBy(16).Of(measure.PairsPerSecond)
	cluster := result.ClusterBy(256).Of(measure.PairsPerSecond)
	one, zero := result.HandoffOf(32, 1), result.HandoffOf(32, 0)
	idle, told := result.HeldFor(64), result.HeldFor(1).Of(measure.ToldRoundTrips)
	get := result.PairsBy(256).Of(measure.GetP99)
	return []goal{
		atLeast("256 callers: pairs/s, of redislock's", "x", 3, 4, against(crowd, "redislock")),
		atLeast("256 callers: pairs/s, of redsync's", "x", 3, 5, against(crowd, "redsync")),
		atLeast("256 callers: pairs/s, of rueidislock's", "x", 1.7, 2.2, against(crowd, "rueidislock")),
		atLeast("256 callers: pairs/s, of the server's limit", "x", 0.8, 1.2, against(crowd, measure.Limit)),
		atLeast("256 callers on a Cluster of 3: pairs/s, of redislock's", "x", 1.5, 0, against(cluster, "redislock")),
		atLeast("16 callers: pairs/s, of redislock's", "x", 1, 1.2, against(few, "redislock")),
		atLeast("16 callers: pairs/s, of redsync's", "x", 1, 1.2, against(few, "redsync")),
		atLeast("16 callers: pairs/s, of rueidislock's", "x", 1, 1.2, against(few, "rueidislock")),
		atMost("1 caller: time, of the raw commands'", "x", 1.3, 1.15, slower(result.PairsBy(1).Of(measure.PairsPerSecond), "raw")),
		atMost("p99 of somebody else's GET, of that beside redislock", "x", 1.5, 1, against(get, "redislock")),
		atLeast("1 ms holds: sections/s, of the best rival's", "x", 0.95, 1.05, againstBest(one.Of(measure.SectionsPerSecond), slices.Max)),
		atMost("1 ms holds: p99 wait, of the best rival's", "x", 0.25, 0, againstBest(one.Of(measure.WaitP99), slices.Min)),
		atMost("1 ms holds: p99 wait, in 32 mean sections", "x", 1.5, 1.1, waitInTurns(one)),
		atLeast("1 ms holds: Jain fairness", "", 0.99, 0.999, ours(one.Of(measure.Jain))),
		atMost("1 ms holds: round trips a section", "", 4, 2.5, ours(one.Of(measure.RoundTripsPerSection))),
		atLeast("0 ms holds: sections/s, of the best rival's", "x", 0.8, 1.5, againstBest(zero.Of(measure.SectionsPerSecond), slices.Max)),
		atLeast("0 ms holds: Jain fairness", "", 0.95, 0, ours(zero.Of(measure.Jain))),
		atMost("64 waiters: share of a core", "%", 2, 0, ours(idle.Of(measure.CPUPercent))),
		atMost("64 waiters: commands a second and waiter", "", 1, 0, ours(idle.Of(measure.CommandsPerWaiterAndTime))),
		atMost("release to next told, in round trips", "", 4, 2.5, ours(told)),
		atMost("leases lost", "", 0, 0, renewal(measure.Lost)),
		atLeast("acquirers beside the leases, of their speed alone", "x", 0.7, 0.9, renewal(measure.BesideRatio)),
	}
}

func ours(c result.Case) func(*result.Run) (float64, bool) {
	return func(r *result.Run) (float64, bool) {
		m, ok := r.Get(c.By(us))
		return m.Median, ok
	}
}

// against is Picket's number divided by another's.
func against(c result.Case, impl string) func(*result.Run) (float64, bool) {
	return func(r *result.Run) (float64, bool) {
		mine, ok := r.Get(c.By(us))
		theirs, also := r.Get(c.By(impl))
		return mine.Median / theirs.Median, ok && also
	}
}

// slower is the time that Picket takes, divided by another's.
func slower(c result.Case, impl string) func(*result.Run) (float64, bool) {
	return func(r *result.Run) (float64, bool) {
		ratio, ok := against(c, impl)(r)
		return 1 / ratio, ok
	}
}

// againstBest compares with the rival that does best in this metric.
func againstBest(c result.Case, best func([]float64) float64) func(*result.Run) (float64, bool) {
	return func(r *result.Run) (float64, bool) {
		mine, ok := r.Get(c.By(us))
		var theirs []float64
		for _, impl := range r.Impls(c) {
			if m, found := r.Get(c.By(impl)); found && impl != us {
				theirs = append(theirs, m.Median)
			}
		}
		if !ok || len(theirs) == 0 {
			return 0, false
		}
		return mine.Median / best(theirs), true
	}
}

// waitInTurns is the p99 wait in units of what one turn of all workers takes: 1 is perfect order.
func waitInTurns(c result.Case) func(*result.Run) (float64, bool) {
	return func(r *result.Run) (float64, bool) {
		wait, ok := r.Get(c.By(us).Of(measure.WaitP99))
		rate, also := r.Get(c.By(us).Of(measure.SectionsPerSecond))
		turn := 1000 * float64(c.Workers) / rate.Median
		return wait.Median / turn, ok && also
	}
}

// renewal is about as many leases as the run had.
func renewal(metric string) func(*result.Run) (float64, bool) {
	return func(r *result.Run) (float64, bool) {
		i := slices.IndexFunc(r.Measurements, func(m result.Measurement) bool { return m.Bench == result.Renew && m.Metric == metric })
		if i < 0 {
			return 0, false
		}
		return r.Measurements[i].Median, true
	}
}

func (g goal) bar(v float64) string {
	sign := "≥"
	if g.atMost {
		sign = "≤"
	}
	return sign + " " + strconv.FormatFloat(v, 'f', -1, 64) + g.unit
}
