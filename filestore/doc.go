// Package filestore keeps locks on one machine, without a server: a lease is a kernel lock on a file.
//
//	store, err := filestore.New("/var/lib/backup/locks")
//	if err != nil {
//		return err
//	}
//	locker := picket.New(store)
//
// # What it promises
//
// The kernel frees a lock when the last process that has its descriptor is gone, so a crash leaves nothing behind and no clock ends a lease: TTLs are
// answered with [picket.NoExpiry]. Tokens rise over crashes, clean-up and clocks that step back, because the last one is on the disk before it is told.
// A job in processes of its own keeps the lock past the death of its parent if it inherits the descriptor: see [Store.File].
//
// # What it cannot do
//
//   - There is no queue: waiters poll and come in without order.
//   - LockDelay, weights and Break are not supported: LockDelay and weights are refused with [picket.ErrUnsupported].
//   - Reading and writing files cannot be interrupted: a method that has begun I/O on a disk that hangs returns when the disk answers, whatever its ctx.
//   - Only the Store that acquired a lease can release it.
//   - A directory that is removed, or a lock file, lets a second job in at once. The first one learns of it at its next renewal: up to a third of its
//     TTL both go on.
//   - MinHold does not survive a crash of the holder: it is written at the release.
//   - Locks of network file systems do not reach every client. On Linux they are recognised and refused unless [WithNetworkFS] accepts them; on other
//     systems they are not recognised.
//   - Who holds a lock is known exactly where Linux shows /proc/locks of the whole machine. In containers, on btrfs and overlayfs
//     (the kernel lists their files under another device) and on other systems [Store.Inspect] judges by the process that acquired, so a job that has
//     outlived it shows as free although Acquire answers busy.
//
// # Files
//
// A key has NAME.lock, which is empty and only locked, and NAME.json with token and holder, written by who has the lock. A file NAME.tmp is a write
// that a crash ended. ~floor.json has the largest token of all keys that were forgotten: a day after its last use the files of a key may be removed. The
// first Acquire of a new key does so for up to 4 keys among the first 4,096 names of the directory: behind as many that stay, files are not cleaned up.
// Names are readable for simple keys; other bytes are %-escaped and long names end in a hash. Files can be read by their owner only: all users of a
// directory need to be one user. A FIFO, a directory or a symbolic link in the place of a file is refused: remove it.
//
// Give picket a directory of its own. A file of another program in the place of a key's is refused and stays, and so do files that picket does not write; but a stranger's
// NAME.lock that is empty, a day old and readable by its owner only looks like picket's, and is cleaned up with the others.
package filestore
