// Package measure runs lock libraries under load, in interleaved rounds: what disturbs one round disturbs all of them.
package measure

import "time"

// Plan is how long and how often to measure.
type Plan struct {
	Rounds int
	Budget time.Duration // for all that is asked for; 0 is no limit
	Bound  time.Duration // what a single section may take before it counts as stuck
	Drain  time.Duration // for waiters to leave at the end of a round

	Pairs      time.Duration // one case of one rival in one round
	Bystander  time.Duration // the GETs of somebody else
	LimitCalls int           // that redis-benchmark makes of each script

	Handoff  time.Duration // one case of one rival in one round, or longer until there are Sections
	Sections int           // what a fairness index needs
	Idle     time.Duration // waiters on a held key
	Told     int           // hand-overs to a single waiter

	Leases int
	TTL    time.Duration // of those leases; they are held for three of them
	Alone  time.Duration // acquirers without leases beside them
}

// Full is the plan whose numbers count: about 16 minutes for everything.
func Full() Plan {
	return Plan{
		Rounds: 5, Bound: 10 * time.Second, Drain: 5 * time.Second,
		Pairs: time.Second, Bystander: 2 * time.Second, LimitCalls: 100_000,
		Handoff: 4 * time.Second, Sections: 2_000, Idle: time.Minute, Told: 50,
		Leases: 100_000, TTL: 30 * time.Second, Alone: 10 * time.Second,
	}
}

// Quick is the plan that ends within 45 seconds and shows that everything works.
func Quick() Plan {
	return Plan{
		Rounds: 1, Budget: 43 * time.Second, Bound: 2 * time.Second, Drain: 500 * time.Millisecond,
		Pairs: 200 * time.Millisecond, Bystander: 400 * time.Millisecond, LimitCalls: 15_000,
		Handoff: time.Second, Sections: 0, Idle: time.Second, Told: 10,
		Leases: 10_000, TTL: 1500 * time.Millisecond, Alone: time.Second,
	}
}
