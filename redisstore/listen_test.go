package redisstore_test

import (
	"context"
	"errors"
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

// subscriptions counts the server's subscription connections.
func subscriptions(t testing.TB, c *redis.Client) string {
	n, err := c.Do(t.Context(), "client", "list", "type", "pubsub").Text()
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, r := range n {
		if r == '\n' {
			count++
		}
	}
	return strconv.Itoa(count)
}

// waits is a waiter in the queue of a held key that listens.
func waits(t testing.TB, s *redisstore.Store, key string) (c picket.Claim, wake <-chan struct{}) {
	t.Helper()
	c = claim(key)
	c.Queue, c.Recheck = true, time.Minute
	wake, stop, err := s.Watch(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	if _, err := s.Acquire(t.Context(), c); !errors.Is(err, picket.ErrBusy) {
		t.Fatalf("Acquire = %v, want ErrBusy", err)
	}
	return c, wake
}

// TestAReleaseWakesTheFirstWaiterAndNoOther covers GL-37.
func TestAReleaseWakesTheFirstWaiterAndNoOther(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s, other := store(t, client(t, server)), store(t, client(t, server))
	holder := claim("k")
	if _, err := s.Acquire(t.Context(), holder); err != nil {
		t.Fatal(err)
	}
	first, wake := waits(t, s, "k")
	_, second := waits(t, other, "k")
	if err := s.Release(t.Context(), holder); err != nil {
		t.Fatal(err)
	}
	select {
	case <-wake:
	case <-second:
		t.Fatal("the second was woken")
	case <-time.After(2 * time.Second):
		t.Fatal("nobody was woken")
	}
	if _, err := s.Acquire(t.Context(), first); err != nil {
		t.Errorf("Acquire of who was woken = %v", err)
	}
	select {
	case <-second:
		t.Error("the second was woken too")
	default:
	}
}

// TestManyNamesShareOneSubscriptionConnection covers W3, and it is gone when nobody waits any more.
func TestManyNamesShareOneSubscriptionConnection(t *testing.T) {
	t.Parallel()
	names := 5000
	if testing.Short() {
		names = 500
	}
	server := redistest.Start(t)
	c := client(t, server)
	s := store(t, c)
	if n := subscriptions(t, c); n != "0" {
		t.Errorf("%s subscription connections before anybody waits", n)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	stops := make([]func(), names)
	var wg sync.WaitGroup
	for w := range 50 {
		wg.Go(func() {
			for i := w; i < names; i += 50 {
				_, stop, err := s.Watch(ctx, claim("k"+strconv.Itoa(i)))
				if err != nil {
					t.Errorf("Watch = %v", err)
					return
				}
				stops[i] = stop
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	if n := subscriptions(t, c); n != "1" {
		t.Errorf("%s subscription connections, want 1", n)
	}
	for _, stop := range stops {
		stop()
	}
	if !eventually(10*time.Second, func() bool { return subscriptions(t, c) == "0" }) {
		t.Errorf("%s subscription connections when nobody waits", subscriptions(t, c))
	}
}

// TestALostSubscriptionIsOpenedAgainAndWakesAll covers GL-69: what was published meanwhile is gone.
func TestALostSubscriptionIsOpenedAgainAndWakesAll(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.StartProxy(t, server.Addr(), 1)
	for name, fault := range map[string]func(){
		"cut":        proxy.CutAll,
		"black hole": func() { proxy.BlackHole(); time.AfterFunc(6*time.Second, proxy.Heal) },
	} {
		s := store(t, behind(t, server, proxy))
		_, stop, err := s.Watch(t.Context(), claim("other")) // keeps the connection busy with more than one name
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		wake, stop, err := s.Watch(t.Context(), claim(name))
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		fault()
		select {
		case <-wake:
		case <-time.After(20 * time.Second):
			t.Errorf("%s: the waiter was not told that it may have missed something", name)
		}
	}
}

// TestWithoutWakeUpsWaitersPoll covers W2 and W5: all messages dropped, or no permission to subscribe.
func TestWithoutWakeUpsWaitersPoll(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.WithACL("mute", "pw", "~lock:* -@all +@connection "+scriptCommands))
	o := server.Options()
	o.Username, o.Password = "mute", "pw"
	denied := redis.NewClient(o)
	t.Cleanup(func() { _ = denied.Close() })
	proxy := redistest.StartProxy(t, server.Addr(), 1)
	proxy.Sometimes(1, redistest.Drop(redistest.Replies), "subscribe")
	for name, c := range map[string]*redis.Client{"denied": denied, "dropped": behind(t, server, proxy)} {
		holder := acquired(t, locker(t, store(t, client(t, server))), name)
		waiter := locker(t, store(t, c), picket.WithTTL(2*time.Second))
		time.AfterFunc(300*time.Millisecond, func() { _ = holder.Release(t.Context()) })
		began := time.Now()
		lease := acquired(t, waiter, name)
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("%s: waited %v for a key that was free after 300 ms", name, took)
		}
		_ = lease.Release(t.Context())
	}
	_, _, err := store(t, denied).Watch(t.Context(), claim("k"))
	if !errors.Is(err, picket.ErrRefused) {
		t.Errorf("Watch without permission = %v, want ErrRefused at once", err)
	}
}

// TestAHundredKilledWaitersCostNothing covers Q1 and GL-36: they listened, and nobody hears any more.
func TestAHundredKilledWaitersCostNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := store(t, client(t, server))
	holder := claim("k")
	if _, err := s.Acquire(t.Context(), holder); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		c := client(t, server)
		dead, err := redisstore.New(c)
		if err != nil {
			t.Fatal(err)
		}
		w := claim("k")
		w.Queue, w.Recheck = true, time.Minute
		if _, _, err := dead.Watch(t.Context(), w); err != nil {
			t.Fatal(err)
		}
		if _, err := dead.Acquire(t.Context(), w); !errors.Is(err, picket.ErrBusy) {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		_ = dead.Close(ctx)
		cancel()
		_ = c.Close()
	}
	live, wake := waits(t, s, "k")
	plain := server.Client(t)
	if !eventually(5*time.Second, func() bool { return subscriptions(t, plain) == "1" }) {
		t.Fatal("the server has not noticed that they are gone")
	}
	if err := s.Release(t.Context(), holder); err != nil {
		t.Fatal(err)
	}
	select {
	case <-wake:
	case <-time.After(time.Second):
		t.Fatal("the only live waiter was not woken")
	}
	if _, err := s.Acquire(t.Context(), live); err != nil {
		t.Errorf("Acquire = %v", err)
	}
}

// TestAHandOffAlertsTheNextThatCanGetOne: when A has let its hand-off lapse and B has one, C is to look later, not A.
func TestAHandOffAlertsTheNextThatCanGetOne(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	c := client(t, server)
	ctx := t.Context()
	all := server.Client(t).PSubscribe(ctx, "lock:{k}:*")
	defer all.Close()
	if _, err := all.Receive(ctx); err != nil {
		t.Fatal(err)
	}
	z := claim("k")
	s := store(t, c)
	if _, err := s.Acquire(ctx, z); err != nil {
		t.Fatal(err)
	}
	names := map[string]string{}
	for _, n := range []string{"A", "B", "C"} {
		own := store(t, client(t, server))
		w := claim("k")
		w.Queue, w.Recheck = true, 10*time.Second
		names[w.ID] = n
		_, stop, err := own.Watch(ctx, w)
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		if _, err := own.Acquire(ctx, w); !errors.Is(err, picket.ErrBusy) {
			t.Fatal(err)
		}
	}
	var got []string
	read := func(n int) {
		for range n {
			m, err := all.ReceiveMessage(ctx)
			if err != nil {
				t.Fatal(err)
			}
			id, later, _ := strings.Cut(m.Payload, " ")
			got = append(got, strings.TrimSpace(names[id]+" "+later))
		}
	}
	if err := s.Release(ctx, z); err != nil {
		t.Fatal(err)
	}
	read(2)
	time.Sleep(1050 * time.Millisecond)
	_ = s.Release(ctx, claim("k")) // nobody's, but it finds that the hand-off has lapsed
	read(2)
	if want := "A,B later,B,C later"; strings.Join(got, ",") != want {
		t.Errorf("told %q, want %q", strings.Join(got, ","), want)
	}
}
