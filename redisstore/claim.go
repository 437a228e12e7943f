package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/picket-go/picket"
)

const (
	// longest bounds every time of a claim, so that sums of them stay exact in Lua.
	longest = 365 * 24 * time.Hour
	// defaultLife is how long a waiter that does not say when it asks again lives on without asking.
	defaultLife = 10 * time.Second
	// slack is added to three re-checks: a waiter is not dead because one poll was slow.
	slack = time.Second
	// askingWords is how many arguments a claim has that wants the lock; its id is the first.
	askingWords = 4
	// draftSize is enough for the text of a claim with an ordinary name.
	draftSize = 512
)

// named refuses a claim that could match what belongs to nobody. Ids have a fixed length: they stand in front of the record and are compared whole.
func named(c picket.Claim) error {
	if c.Key == "" {
		return fmt.Errorf("%w: the claim has no key", picket.ErrInvalid)
	}
	if len(c.ID) != len(nobody) || !alphanumeric(c.ID) {
		return fmt.Errorf("%w: the id %.40q of the claim on %q is not 26 letters and digits", picket.ErrInvalid, c.ID, c.Key)
	}
	return nil
}

func alphanumeric(s string) bool {
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return true
}

// grantable refuses a claim that this store cannot honour.
func grantable(c picket.Claim) error {
	if c.Weight != 0 || c.Capacity != 0 {
		return fmt.Errorf("%w: the claim on %q has weight %d of %d, Redis grants exclusive leases only", picket.ErrUnsupported, c.Key, c.Weight, c.Capacity)
	}
	if err := named(c); err != nil {
		return err
	}
	if c.TTL <= 0 || c.TTL > longest {
		return fmt.Errorf("%w: TTL %s of the claim on %q is not between 1ns and %s", picket.ErrInvalid, c.TTL, c.Key, longest)
	}
	if outOfRange(c.Recheck) || outOfRange(c.MinHold) || outOfRange(c.LockDelay) {
		return fmt.Errorf("%w: recheck %s, min hold %s or lock delay %s of the claim on %q is not between 0s and %s",
			picket.ErrInvalid, c.Recheck, c.MinHold, c.LockDelay, c.Key, longest)
	}
	return nil
}

func outOfRange(d time.Duration) bool { return d < 0 || d > longest }

// draft composes the words of an entry in one text.
type draft struct {
	text []byte
	ends [len(suffixes) + 2 + askingWords]int
	n    int
}

func (d *draft) end() {
	d.ends[d.n] = len(d.text)
	d.n++
}

func (d *draft) number(n int64) { d.text = strconv.AppendInt(d.text, n, 10) }

// words cuts the text.
func (d *draft) words() []string {
	text, from := string(d.text), 0
	all := make([]string, d.n)
	for i, end := range d.ends[:d.n] {
		all[i], from = text[from:end], end
	}
	return all
}

func (d *draft) entry(op, name string) *entry {
	return &entry{subject: subject{op, name}, words: d.words(), size: len(d.text)}
}

// keys adds the keys of a name.
func (d *draft) keys(s *Store, name string) {
	record := s.record(name)
	for _, suffix := range suffixes {
		d.text = append(append(d.text, record...), suffix...)
		d.end()
	}
}

// asking adds the arguments of a claim that wants the lock.
func (d *draft) asking(s *Store, c picket.Claim) {
	queue, life, process := int64(0), defaultLife, "-"
	if c.Queue {
		queue = 1
		if s.listen.hears(c.ID) {
			process = s.process
		}
	}
	if c.Recheck > 0 {
		life = 3*c.Recheck + slack
	}
	ttl, delay := millis(c.TTL), millis(c.LockDelay)
	d.text = append(d.text, c.ID...)
	d.end()
	d.number(ttl + delay)
	d.end()
	d.text = appendHeld(d.text, ttl, delay, c.Holder)
	d.end()
	for _, n := range [...]int64{delay, queue, millis(life)} {
		d.number(n)
		d.text = append(d.text, ' ')
	}
	d.text = append(d.text, process...)
	d.end()
}

// leaving adds the arguments of a claim that gives the lock back.
func (d *draft) leaving(c picket.Claim) {
	d.text = append(d.text, c.ID...)
	d.end()
	if c.MinHold > 0 || c.Doubt {
		d.number(millis(c.MinHold))
		if c.Doubt {
			d.text = append(d.text, " 1"...)
		} else {
			d.text = append(d.text, " 0"...)
		}
	}
	d.end()
}

// Acquire makes one attempt. It returns a *picket.BusyError while another claim holds the key, is next in its queue, or it cools down; ErrRefused if the claim was undone;
// ErrUnsupported for a claim with a weight; ErrInvalid for one without a key, an id of 26 letters and digits, or a TTL of at most 365 days.
func (s *Store) Acquire(ctx context.Context, c picket.Claim) (picket.Grant, error) {
	if err := grantable(c); err != nil {
		return picket.Grant{}, err
	}
	d := draft{text: make([]byte, 0, draftSize)}
	d.keys(s, c.Key)
	d.asking(s, c)
	e := d.entry("acquire", c.Key)
	a, err := s.acquires.ask(ctx, e)
	if err != nil {
		return picket.Grant{}, err
	}
	return a.grant(e.subject, c)
}

// Transfer releases from and acquires to, both on the same key, in one act. With to.Queue false nobody can come between; else the queue decides who is next.
// A *picket.LostError says that from had no record: then nothing was done for to.
func (s *Store) Transfer(ctx context.Context, from, to picket.Claim) (picket.Grant, error) {
	if err := named(from); err != nil {
		return picket.Grant{}, err
	}
	if err := grantable(to); err != nil {
		return picket.Grant{}, err
	}
	if from.Key != to.Key || from.ID == to.ID {
		return picket.Grant{}, fmt.Errorf("%w: a transfer from a claim on %q to one on %q: want two claims on one key", picket.ErrInvalid, from.Key, to.Key)
	}
	d := draft{text: make([]byte, 0, draftSize)}
	d.keys(s, to.Key)
	d.leaving(from)
	d.asking(s, to)
	e := d.entry("transfer", to.Key)
	a, err := s.transfers.ask(ctx, e)
	if err != nil {
		return picket.Grant{}, err
	}
	if a.word == "lost" {
		return picket.Grant{}, a.lost(to)
	}
	return a.grant(e.subject, to)
}

// Release ends the lease of c, or keeps the key until the MinHold of c is over, leaves the queue, and hands a free key to the first live waiter. With c.Doubt it also
// refuses the claim for the next 10 minutes, even if it returns a *picket.LostError, because the claim has neither a record nor a place in the queue.
func (s *Store) Release(ctx context.Context, c picket.Claim) error {
	if err := named(c); err != nil {
		return err
	}
	if outOfRange(c.MinHold) {
		return fmt.Errorf("%w: min hold %s of the claim on %q is not between 0s and %s", picket.ErrInvalid, c.MinHold, c.Key, longest)
	}
	d := draft{text: make([]byte, 0, draftSize)}
	d.keys(s, c.Key)
	d.leaving(c)
	e := d.entry("release", c.Key)
	a, err := s.releases.ask(ctx, e)
	switch {
	case err != nil:
		return err
	case a.word == "done":
		return nil
	case a.word == "lost":
		return a.lost(c)
	}
	return e.garbled(a)
}
