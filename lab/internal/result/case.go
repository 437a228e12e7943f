// Package result is what the benchmarks measure, and its JSON: one object a line.
package result

// Names of benchmarks.
const (
	Pairs   = "pairs"
	Handoff = "handoff"
	Renew   = "renew"
	Cluster = "cluster"
)

// Case is what was measured, of whom and under which load. Loads that are 0 do not apply.
type Case struct {
	Bench   string `json:"bench"`
	Impl    string `json:"impl"`
	Callers int    `json:"callers,omitempty"` // each on a key of its own
	Workers int    `json:"workers,omitempty"` // all on one key
	HoldMS  int    `json:"hold_ms"`           // in JSON only with workers
	Waiters int    `json:"waiters,omitempty"` // of a key that is held
	Leases  int    `json:"leases,omitempty"`
	Metric  string `json:"metric"`
}

// Of returns the case with another metric.
func (c Case) Of(metric string) Case {
	c.Metric = metric
	return c
}

// By returns the case with another impl.
func (c Case) By(impl string) Case {
	c.Impl = impl
	return c
}

// PairsBy is callers with a key each.
func PairsBy(callers int) Case { return Case{Bench: Pairs, Callers: callers} }

// ClusterBy is callers with a key each, on a Cluster.
func ClusterBy(callers int) Case { return Case{Bench: Cluster, Callers: callers} }

// HandoffOf is many workers on one key.
func HandoffOf(workers, holdMS int) Case {
	return Case{Bench: Handoff, Workers: workers, HoldMS: holdMS}
}

// HeldFor is waiters on a key that nobody releases; with one waiter, a key that is released to it.
func HeldFor(waiters int) Case { return Case{Bench: Handoff, Waiters: waiters} }

// RenewOf is leases that are held while others come and go.
func RenewOf(leases int) Case { return Case{Bench: Renew, Leases: leases} }
