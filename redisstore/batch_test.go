package redisstore

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/picket-go/picket"
	"github.com/picket-go/picket/internal/redistest"
)

// TestManyClaimsOnOneKeyInOneCallHaveOneHolder puts claims on two keys into one call in all orders: some come twice, some are given up by the same call. The shortcut answers
// before the rest of the script, so the order within a call is not that of its claims.
func TestManyClaimsOnOneKeyInOneCallHaveOneHolder(t *testing.T) {
	t.Parallel()
	c := redistest.Shared(t).Client(t)
	for seed := range uint64(60) {
		b := &batches{
			T: t, client: c, store: &Store{set: settings{prefix: "lock:"}}, rand: rand.New(rand.NewPCG(seed, 9)), //nolint:gosec // It must be repeatable.
			holder: map[string]record{}, token: map[string]int64{}, owner: map[string]string{}, last: map[string]int64{},
			names: []string{fmt.Sprint(redistest.Name(t), seed, "a"), fmt.Sprint(redistest.Name(t), seed, "b")},
		}
		for range 8 {
			if b.send(b.draw()); t.Failed() {
				t.Fatalf("seed %d:\n%s", seed, strings.Join(b.told, "\n"))
			}
		}
	}
}

// batches are calls one after the other, and what their claims were told.
type batches struct {
	*testing.T
	client *redis.Client
	store  *Store
	rand   *rand.Rand
	names  []string
	holder map[string]record // by name
	token  map[string]int64  // by id, of the grant it was told
	owner  map[string]string // by name and token, the id
	last   map[string]int64  // by name, the highest token before the call
	ids    int
	told   []string
}

// part is one claim's part of a call.
type part struct {
	*entry
	gets, gives string // ids
}

// draw draws a call.
func (b *batches) draw() (all []part) {
	for range 1 + b.rand.IntN(6) {
		name := b.names[b.rand.IntN(len(b.names))]
		c := b.fresh(name)
		switch b.rand.IntN(5) {
		case 0:
			all = append(all, b.acquire(c))
		case 1: // sent again, and given up
			all = append(all, b.acquire(c), b.acquire(c))
			if c.Doubt = b.rand.IntN(2) == 0; c.Doubt {
				all = append(all, b.release(c))
			}
		case 2, 3:
			if id := b.holder[name].id; id != "" {
				all = append(all, b.release(picket.Claim{ID: id, Key: name}))
			}
		case 4:
			if id := b.holder[name].id; id != "" {
				all = append(all, b.transfer(picket.Claim{ID: id, Key: name}, c))
			}
		}
	}
	return all
}

func (b *batches) fresh(name string) picket.Claim {
	b.ids++
	return picket.Claim{ID: fmt.Sprintf("%026d", b.ids), Key: name, TTL: time.Minute, Queue: b.rand.IntN(3) == 0, Holder: picket.Holder{Host: "h", PID: 1}}
}

func (b *batches) acquire(c picket.Claim) part {
	e := b.store.newEntry("acquire", c.Key)
	e.asking(b.store, c)
	return part{entry: e, gets: c.ID}
}

func (b *batches) release(c picket.Claim) part {
	e := b.store.newEntry("release", c.Key)
	e.leaving(c, markLeaving)
	return part{entry: e, gives: c.ID}
}

func (b *batches) transfer(from, to picket.Claim) part {
	e := b.store.newEntry("transfer", to.Key)
	e.leaving(from, markTransfer)
	e.asking(b.store, to)
	return part{entry: e, gets: to.ID, gives: from.ID}
}

// send makes one call of all and checks what it did.
func (b *batches) send(all []part) {
	var es []*entry
	given := map[string]bool{}
	for _, p := range all {
		p.cut()
		es = append(es, p.entry)
		given[p.gives] = true
	}
	if len(all) == 0 {
		return
	}
	r := request{script: claimScript, keys: len(suffixes) * len(all), claims: len(all), args: arguments(es, nil)}
	raw, err := eval(b.Context(), b.client, r)
	if err != nil {
		b.Fatal(err)
	}
	said, err := answers(r, raw)
	if err != nil {
		b.Fatal(err)
	}
	b.told = append(b.told, "one call:")
	granted := map[string]string{} // by id, the name
	for i, p := range all {
		b.told = append(b.told, fmt.Sprintf("\t%s %q gets %q gives %q -> %v", p.op, p.name, p.gets, p.gives, said[i]))
		if said[i].word == "granted" {
			b.grantedOnce(p, said[i].number(0))
			granted[p.gets] = p.name
		}
	}
	b.agree(granted, given)
}

// grantedOnce checks the token of a grant: the same if the claim was told before, else above all of the calls before, and nobody else's.
func (b *batches) grantedOnce(p part, token int64) {
	if old, ok := b.token[p.gets]; ok {
		if old != token {
			b.Errorf("%s has the tokens %d and %d", p.gets, old, token)
		}
		return
	}
	if token <= b.last[p.name] {
		b.Errorf("%s has the token %d on %q, after %d", p.gets, token, p.name, b.last[p.name])
	}
	grant := fmt.Sprint(p.name, " ", token)
	if by := b.owner[grant]; by != "" {
		b.Errorf("%s and %s have the token %d on %q", by, p.gets, token, p.name)
	}
	b.token[p.gets], b.owner[grant] = token, p.gets
}

// agree checks that who held before, or was told that it holds, and has not given back, is in the record: so there is one at most. A hand-off may lapse.
func (b *batches) agree(granted map[string]string, given map[string]bool) {
	for _, name := range b.names {
		keys := b.store.keys(nil, name)
		rec, ok := parseRecord(b.client.Get(b.Context(), keys[0]).Val())
		fence, _ := b.client.Get(b.Context(), keys[1]).Int64()
		if ok && rec.token != fence {
			b.Errorf("the record of %q has the token %d, the last is %d", name, rec.token, fence)
		}
		if was := b.holder[name]; was.state == stateHeld && !given[was.id] && rec.id != was.id {
			b.Errorf("%s held %q and has not given it back, the record has %s", was.id, name, rec.id)
		}
		b.holder[name], b.last[name] = rec, fence
	}
	for id, name := range granted {
		if rec := b.holder[name]; !given[id] && (rec.id != id || rec.token != b.token[id]) {
			b.Errorf("%s was granted %q with the token %d, the record has %s with %d", id, name, b.token[id], rec.id, rec.token)
		}
	}
}
