package filestore

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// wholeMachine is the first pid namespace. Only there the kernel lists the locks of all processes, also of those that died and whose children go on
// (fs/locks.c, locks_translate_pid).
const wholeMachine = "pid:[4026531836]"

// lockTable is what /proc/locks says of flock(2) locks.
type lockTable struct {
	byInode map[uint64][]flockEntry
	whole   bool // a lock that is not in it is not held
}

type flockEntry struct {
	dev string
	pid int
}

// readLocks reads lines as proc_locks(5) has them: "1: FLOCK ADVISORY WRITE 4841 fe:00:10060421 0 EOF". Those with "->" only wait.
//
// The kernel gives a page at a time, each by its number of the first line: a lock that is freed between two pages makes it leave out a line. So a table
// of several pages is read more than once, and a lock counts that any of them has.
func readLocks() lockTable {
	t := lockTable{byInode: make(map[uint64][]flockEntry), whole: pidNamespace() == wholeMachine}
	for range tables {
		text, pages, err := readTable("/proc/locks")
		t.whole = t.whole && err == nil
		t.add(string(text))
		if pages < 2 || err != nil {
			break
		}
	}
	return t
}

// tables is how often a table of several pages is read: one of 600 locks that come and go lacked a lock in 7 of 100.
const tables = 4

// readTable reads with a buffer that is larger than a page: a smaller one would cut the table in as many pieces more.
func readTable(path string) (text []byte, pages int, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	page := make([]byte, 64<<10)
	for {
		n, err := f.Read(page)
		if errors.Is(err, io.EOF) {
			return text, pages, nil
		}
		if err != nil {
			return text, pages, err
		}
		text, pages = append(text, page[:n]...), pages+1
	}
}

func (t lockTable) add(text string) {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 6 || f[1] != "FLOCK" {
			continue
		}
		pid, _ := strconv.Atoi(f[4])
		colon := strings.LastIndexByte(f[5], ':')
		inode, err := strconv.ParseUint(f[5][colon+1:], 10, 64)
		if err != nil || colon < 0 {
			continue
		}
		t.byInode[inode] = append(t.byInode[inode], flockEntry{f[5][:colon], pid})
	}
}

// of returns the process that locked the file at path, which may have died since, and whether somebody has the lock.
func (t lockTable) of(path string) (pid int, a answer) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return 0, unlocked // nobody finds a lock there
	}
	dev := fmt.Sprintf("%02x:%02x", unix.Major(uint64(st.Dev)), unix.Minor(uint64(st.Dev))) //nolint:unconvert // st.Dev has 32 bits elsewhere
	entries := t.byInode[st.Ino]
	for _, e := range entries {
		if e.dev == dev {
			return e.pid, locked
		}
	}
	if t.whole && len(entries) == 0 {
		return 0, unlocked
	}
	return 0, unknown // on btrfs and overlays stat(2) shows another device than the kernel's
}
