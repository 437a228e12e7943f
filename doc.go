// Package picket is a distributed lock that tells its holder in time when it is over and gives every grant a fencing token.
//
//	locker := picket.New(store)
//	err := locker.Do(ctx, "nightly", func(ctx context.Context, lease *picket.Lease) error {
//		return report.Run(ctx, lease.Token())
//	})
//
// The store may be nothing at all: package filestore locks on one machine, package memstore in one process and in tests; package redisstore locks on the Redis that a team
// already runs. Any other type that implements [Store] and passes package locktest serves as well.
//
// # Guarantees
//
// At most one holder is told that it holds a lock, as long as clocks run at nearly the same rate and the store does not forget acknowledged writes. When either fails, the
// fencing token keeps the resource right.
//
//   - Every grant carries a token, larger than all earlier ones for that key: [Lease.Token].
//   - The holder knows first: [Lease.Context] ends, and [Lease.Check] fails, before the lease can end at the store, by the holder's own clock, without an answer from the
//     store. The reason is the context's cause, a [*LostError].
//   - An acquire whose reply was lost is a success when it is repeated, never "busy by myself". One that is given up is undone: no orphan keeps the key until its TTL.
//   - A release that finds somebody else's record leaves it alone and says so.
//   - A lease is renewed while its holder lives, by one scheduler for all leases of a Locker. A Locker without leases and waiters owns no goroutine, timer or connection.
//
// # Not guaranteed
//
// A lock with a time limit can be held by two at once: a holder may pause (garbage collection, SIGSTOP, a migrating VM) between its last Check and its write. For
// efficiency (doing it twice costs money) the lock alone is enough. For correctness (doing it twice corrupts) the resource itself must compare tokens, in one act with
// the write: package fence does it inside a process, and docs/guarantees.md shows how a database does. Nothing is re-entrant: identity is the claim, never a goroutine or a process; nested code finds its lease with
// [FromContext].
//
// # Reading order
//
// store.go says what a store is. locker.go is what users call. claim.go sends a claim until its outcome is known. lease.go is a lease's life, with its arithmetic in
// internal/lease. line.go and wait.go are waiting; renewer.go and batch.go are the watchdog; release.go is the way back.
package picket
