package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/picket-go/picket"
	"github.com/picket-go/picket/internal/redistest"
	"github.com/picket-go/picket/redisstore"
)

// farPoll is how long a waiter may not have asked (DESIGN 3.6): what the server has forgotten of it comes back by then.
const farPoll = 3 * time.Second

// clocked is a client whose wall clock is wrong. The system's cannot be moved for one process, as Go reads it without a call that could be caught; a claim has no other
// time of the client in it.
type clocked struct {
	*redisstore.Store
	ahead time.Duration
}

func (s *clocked) Acquire(ctx context.Context, c picket.Claim) (picket.Grant, error) {
	c.Holder.Since = c.Holder.Since.Add(s.ahead)
	return s.Store.Acquire(ctx, c)
}

func (s *clocked) Transfer(ctx context.Context, from, to picket.Claim) (picket.Grant, error) {
	to.Holder.Since = to.Holder.Since.Add(s.ahead)
	return s.Store.Transfer(ctx, from, to)
}

// TestClientsClocksAreHoursApart: who is first, how long a lease lasts and since when it is held are the server's to say.
func TestClientsClocksAreHoursApart(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := store(t, client(t, server))
	holder := acquired(t, locker(t, s), "k")
	var wg sync.WaitGroup
	var mu sync.Mutex
	var order []int
	for i, ahead := range []time.Duration{5 * time.Hour, -7 * time.Hour, 0, 24 * time.Hour, -time.Hour} {
		l := locker(t, &clocked{store(t, client(t, server)), ahead}, picket.WithTTL(5*time.Second))
		wg.Go(func() {
			lease := acquired(t, l, "k")
			st, err := s.Inspect(t.Context(), "k")
			if off := time.Since(st.Holder.Since).Abs(); err != nil || off > time.Minute || st.Remaining > 5*time.Second || st.Remaining < 3*time.Second {
				t.Errorf("the record of a holder %v ahead: since %v, for %v more, %v", ahead, st.Holder.Since, st.Remaining, err)
			}
			mu.Lock()
			order = append(order, i)
			mu.Unlock()
			if err := lease.Release(t.Context()); err != nil {
				t.Errorf("Release = %v", err)
			}
		})
		waiting(t, s, "k", i+1)
	}
	if err := holder.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	if got := fmt.Sprint(order); got != "[0 1 2 3 4]" {
		t.Errorf("served in the order %v", got)
	}
}

// TestNoClientsTimeReachesTheServer looks at all that is sent for a key with waiters: no number is a time of day of the client, whose clock is an hour off the server's.
func TestNoClientsTimeReachesTheServer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.WithClock())
	server.SetClock(time.Hour)
	wire := monitor(t, server)
	l, other := locker(t, store(t, client(t, server)), picket.WithTTL(300*time.Millisecond)), locker(t, store(t, client(t, server)))
	holder := acquired(t, l, "k")
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() { _ = acquired(t, other, "k").Release(t.Context()) })
	}
	time.Sleep(500 * time.Millisecond) // renewals and polls
	_ = holder.Release(t.Context())
	wg.Wait()
	scripts, numbers := 0, regexp.MustCompile(`[0-9]{9,}`)
	for _, e := range wire() {
		if e.words[0] != "evalsha" && e.words[0] != "eval" || e.lua {
			continue
		}
		scripts++
		for _, word := range e.words[2:] {
			for _, digits := range numbers.FindAllString(word, -1) {
				n, _ := strconv.ParseFloat(digits, 64)
				for _, unit := range []float64{1, 1e3, 1e6, 1e9} {
					if off := n/unit - float64(time.Now().Unix()); off > -600 && off < 600 {
						t.Errorf("%q has the client's time in it", word)
					}
				}
			}
		}
	}
	if scripts < 6 {
		t.Errorf("only %d scripts were seen", scripts)
	}
}

// TestTheServersClockStepsWhileSomebodyWaits: back, and nobody waits longer or loses its place; forward, and all have been silent for an hour, so they queue again with
// their next poll. Tokens rise all the while.
func TestTheServersClockStepsWhileSomebodyWaits(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.WithClock())
	l := locker(t, store(t, client(t, server)), picket.WithTTL(2*time.Second))
	last := int64(0)
	rises := func(token int64) {
		if token <= last {
			t.Errorf("token %d follows %d", token, last)
		}
		last = token
	}
	for _, offset := range []time.Duration{-time.Hour, time.Hour} {
		var renewed renewals
		holder := acquired(t, l.With(renewed.option()), "k")
		rises(holder.Token())
		var w crowd
		for i := range 4 {
			w.join(t, client(t, server), "k", i+1)
		}
		before := server.Info("server")["server_time_usec"]
		server.SetClock(offset)
		stepped := time.Now()
		back := number(t, server.Info("server")["server_time_usec"]) < number(t, before)
		if back {
			renewed.await(t, 1, 3*time.Second) // the holder has not noticed
			stepped = time.Now()
			if err := holder.Release(t.Context()); err != nil {
				t.Errorf("%v: Release = %v", offset, err)
			}
			w.served(t, 4, stepped, slow(time.Second))
		} else {
			lostIn(t, holder, 4*time.Second)
			w.wg.Wait()
			for _, e := range w.in {
				if took := e.at.Sub(stepped); took > farPoll+slow(time.Second) {
					t.Errorf("waiter %d is in %v after the step", e.who, took)
				}
			}
		}
		for _, e := range w.in {
			rises(e.token)
		}
	}
}

// TestTheServerForgetsEverythingWhileFiftyWait covers GL-25: FLUSHALL takes the record, the queue and the tokens.
func TestTheServerForgetsEverythingWhileFiftyWait(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	c := client(t, server)
	holder := acquired(t, locker(t, store(t, c), picket.WithTTL(2*time.Second)), "k")
	all := fiftyWait(t, holder, func() *redis.Client { return client(t, server) })
	flushed := time.Now()
	c.FlushAll(t.Context())
	all(flushed, farPoll+slow(time.Second))
	if lost := lostIn(t, holder, 3*time.Second); lost.Reason != picket.ReasonDeleted && lost.Reason != picket.ReasonStolen {
		t.Errorf("the holder lost it for the reason %q", lost.Reason)
	}
}

// fiftyWait has ten processes with five waiters each in the line of holder. The returned function waits until all have been in, with tokens that rise.
func fiftyWait(t *testing.T, holder *picket.Lease, connect func() *redis.Client) (all func(since time.Time, limit time.Duration)) {
	t.Helper()
	var w crowd
	key := holder.Key()
	for i := range 10 {
		s := store(t, connect())
		l := locker(t, s, picket.WithTTL(2*time.Second))
		for range 5 {
			w.wg.Go(func() {
				lease := acquired(t, l, key)
				w.mu.Lock()
				w.in = append(w.in, entrance{i, lease.Token(), time.Now()})
				w.mu.Unlock()
				if err := lease.Release(t.Context()); err != nil && !errors.Is(err, picket.ErrLost) {
					t.Errorf("Release = %v", err)
				}
			})
		}
		waiting(t, s, key, i+1)
	}
	return func(since time.Time, limit time.Duration) {
		t.Helper()
		w.wg.Wait()
		if len(w.in) != 50 {
			t.Fatalf("%d of 50 are in", len(w.in))
		}
		before := holder.Token()
		for _, e := range w.in {
			if e.token <= before {
				t.Errorf("token %d follows %d", e.token, before)
			}
			before = e.token
		}
		if took := w.in[49].at.Sub(since); took > limit {
			t.Errorf("the last one is in after %v, want %v", took, limit)
		}
	}
}

// TestAFailoverForgetsEverythingWhileFiftyWait: the replica that is promoted knows of no lock and no queue. It takes as long as Sentinel takes, and then a poll of each.
func TestAFailoverForgetsEverythingWhileFiftyWait(t *testing.T) {
	if testing.Short() {
		t.Skip("Sentinel takes some seconds")
	}
	t.Parallel()
	s := redistest.StartSentinels(t, redistest.SentinelConfig{})
	old := s.Master()
	s.CutReplication()
	holder := acquired(t, locker(t, store(t, s.FailoverClient(t)), picket.WithTTL(2*time.Second)), "k")
	all := fiftyWait(t, holder, func() *redis.Client { return s.FailoverClient(t) })
	old.Kill()
	s.WaitPromoted(old)
	all(time.Now(), farPoll+slow(3*time.Second))
	if lost := lostIn(t, holder, 3*time.Second); lost.Token != holder.Token() {
		t.Errorf("lost %v", lost)
	}
}

// TestMemoryRunsOutWhileSomebodyWaits: who waits keeps its place and is served, as nothing that this needs takes memory first; who comes new is refused at once.
func TestMemoryRunsOutWhileSomebodyWaits(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.WithMaxMemory("64mb", "noeviction"))
	c := client(t, server)
	s := store(t, c)
	holder := acquired(t, locker(t, s), "k")
	var w crowd
	for i := range 4 {
		w.join(t, client(t, server), "k", i+1)
	}
	if err := c.ConfigSet(t.Context(), "maxmemory", "100kb").Err(); err != nil {
		t.Fatal(err)
	}
	if err := c.Set(t.Context(), "x", "y", 0).Err(); !redis.HasErrorPrefix(err, "OOM") {
		t.Fatalf("SET = %v, want OOM", err)
	}
	if _, err := locker(t, s).Acquire(t.Context(), "k"); !errors.Is(err, picket.ErrRefused) || !strings.Contains(err.Error(), "maxmemory") {
		t.Errorf("a new waiter: %v, want ErrRefused that names maxmemory", err)
	}
	before := server.CommandStats()["evalsha"]
	if !eventually(5*time.Second, func() bool { return server.CommandStats()["evalsha"] > before+4 }) {
		t.Error("nobody polls any more")
	}
	released := time.Now()
	if err := holder.Release(t.Context()); err != nil {
		t.Errorf("Release without memory = %v", err)
	}
	w.served(t, 4, released, slow(time.Second))
}
