package redistest_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/picket-go/picket/internal/redistest"
)

// path is a client that reaches a server of its own through a proxy, and one that reaches it straight. The first waits 150 ms for a reply, and does not try again.
type path struct {
	*redistest.Proxy
	server       *redistest.Server
	client       *redis.Client
	straight     *redis.Client
	key, another string
}

func newPath(t *testing.T) *path {
	t.Helper()
	s := redistest.Shared(t)
	p := redistest.StartProxy(t, s.Addr(), 1)
	opts := s.Options()
	opts.Addr = p.Addr()
	opts.ReadTimeout, opts.MaxRetries = 150*time.Millisecond, -1
	client := redis.NewClient(opts)
	t.Cleanup(func() { _ = client.Close() })
	return &path{Proxy: p, server: s, client: client, straight: s.Client(t), key: redistest.Name(t), another: redistest.Name(t)}
}

// increment asks for INCR and returns what becomes of it.
func (p *path) increment(t *testing.T) error {
	t.Helper()
	return p.client.Incr(t.Context(), p.key).Err()
}

func (p *path) mustIncrement(t *testing.T) {
	t.Helper()
	if err := p.increment(t); err != nil {
		t.Fatalf("%v, %+v", err, p.Counts())
	}
}

// value waits until the counter is what it should be.
func (p *path) value(t *testing.T, want int) {
	t.Helper()
	got := -1
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		var err error
		if got, err = p.straight.Get(t.Context(), p.key).Int(); err != nil && !errors.Is(err, redis.Nil) {
			t.Fatal(err)
		}
		if got == want {
			return
		}
	}
	t.Errorf("the counter is %d, want %d", got, want)
}

func wantTimeout(t *testing.T, err error) {
	t.Helper()
	if timeout, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](err); !ok || !timeout.Timeout() {
		t.Errorf("%v, want a timeout", err)
	}
}

func TestACalmProxyChangesNothing(t *testing.T) {
	t.Parallel()
	p := newPath(t)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 50 {
				if err := p.client.Incr(t.Context(), p.key).Err(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	p.value(t, 400)
	values := map[string]any{"text": "a\r\nb", "empty": ""}
	if err := p.client.HSet(t.Context(), p.another, values).Err(); err != nil {
		t.Fatal(err)
	}
	if got, err := p.client.HGetAll(t.Context(), p.another).Result(); err != nil || got["text"] != "a\r\nb" || len(got) != 2 {
		t.Errorf("%q, %v", got, err)
	}
	if c := p.Counts(); c.Requests < 402 || c.Replies < 402 || c.Dropped+c.Delayed+c.Duplicated+c.Answered+c.Cut != 0 {
		t.Errorf("%+v", c)
	}
}

func TestFaultsOfOneRequest(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		fault redistest.Fault
		check func(*testing.T, error)
		value int
		count func(redistest.Counts) int
	}{
		"a dropped request": {redistest.Drop(redistest.Requests), wantTimeout, 0, func(c redistest.Counts) int { return c.Dropped }},
		"a dropped reply":   {redistest.Drop(redistest.Replies), wantTimeout, 1, func(c redistest.Counts) int { return c.Dropped }},
		"cut at a request":  {redistest.Cut(redistest.Requests), wantError, 0, func(c redistest.Counts) int { return c.Cut }},
		"cut at a reply":    {redistest.Cut(redistest.Replies), wantError, 1, func(c redistest.Counts) int { return c.Cut }},
		"a duplicate":       {redistest.Duplicate(), wantNone, 2, func(c redistest.Counts) int { return c.Duplicated }},
		"a delayed request": {
			redistest.Delay(redistest.Requests, 300*time.Millisecond, 400*time.Millisecond), wantTimeout, 1,
			func(c redistest.Counts) int { return c.Delayed },
		},
		"a delayed reply": {
			redistest.Delay(redistest.Replies, 300*time.Millisecond, 300*time.Millisecond), wantTimeout, 1,
			func(c redistest.Counts) int { return c.Delayed },
		},
		"an answer": {redistest.Answer("OOM says the test"), func(t *testing.T, err error) {
			t.Helper()
			if !redis.HasErrorPrefix(err, "OOM") {
				t.Error(err)
			}
		}, 0, func(c redistest.Counts) int { return c.Answered }},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPath(t)
			p.Next(1, test.fault)
			begin := time.Now()
			test.check(t, p.increment(t))
			if took := time.Since(begin); took > 5*time.Second {
				t.Errorf("it took %v", took)
			}
			p.value(t, test.value)
			if got := test.count(p.Counts()); got != 1 {
				t.Errorf("counted %+v", p.Counts())
			}
			p.mustIncrement(t)
			p.value(t, test.value+1)
		})
	}
}

func wantNone(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

func wantError(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		t.Error("no error")
	}
}

func TestAFaultWaitsForItsCommand(t *testing.T) {
	t.Parallel()
	p := newPath(t)
	p.Next(2, redistest.Answer("ERR for GET"), "GET")
	p.mustIncrement(t)
	for i := range 3 {
		if err := p.client.Get(t.Context(), p.key).Err(); (err != nil) != (i < 2) {
			t.Errorf("GET %d: %v", i, err)
		}
	}
}

func TestRepliesKeepTheirPlacesInAPipeline(t *testing.T) {
	t.Parallel()
	p := newPath(t)
	p.Next(1, redistest.Duplicate(), "incrby")
	p.Next(1, redistest.Answer("ERR not you"), "decr")
	cmds, err := p.client.Pipelined(t.Context(), func(pipe redis.Pipeliner) error {
		pipe.Incr(t.Context(), p.key)
		pipe.Decr(t.Context(), p.key)
		pipe.IncrBy(t.Context(), p.key, 1)
		pipe.Incr(t.Context(), p.key)
		return nil
	})
	got := make([]string, 0, len(cmds))
	for _, cmd := range cmds {
		got = append(got, fmt.Sprintf("%d %v", cmd.(*redis.IntCmd).Val(), cmd.Err()))
	}
	if want := "[1 <nil> 0 ERR not you 2 <nil> 4 <nil>]"; fmt.Sprint(got) != want {
		t.Errorf("%v, %v; want %s", got, err, want)
	}
}

func TestADelayedRequestArrivesAfterItsClientHasGone(t *testing.T) {
	t.Parallel()
	p := newPath(t)
	p.mustIncrement(t) // connects
	p.Next(1, redistest.Delay(redistest.Requests, 300*time.Millisecond, 300*time.Millisecond))
	wantTimeout(t, p.increment(t))
	if err := p.client.Close(); err != nil {
		t.Fatal(err)
	}
	p.value(t, 2)
}

func TestABlackHoleTakesAllAndStaysOnItsConnections(t *testing.T) {
	t.Parallel()
	for direction, arrived := range map[redistest.Direction]int{redistest.Requests: 1, redistest.Replies: 2} {
		t.Run(direction.String(), func(t *testing.T) {
			t.Parallel()
			p := newPath(t)
			p.mustIncrement(t)
			sub := p.client.Subscribe(t.Context(), p.another)
			defer sub.Close()
			if _, err := sub.ReceiveTimeout(t.Context(), 5*time.Second); err != nil {
				t.Fatal(err)
			}
			p.BlackHole(direction)
			wantTimeout(t, p.increment(t))
			p.value(t, arrived)
			if err := p.straight.Publish(t.Context(), p.another, "lost").Err(); err != nil {
				t.Fatal(err)
			}
			got, err := sub.ReceiveTimeout(t.Context(), 100*time.Millisecond)
			if direction == redistest.Requests {
				wantNone(t, err) // The way back is open.
			} else {
				wantTimeout(t, err)
			}
			if _, isMessage := got.(*redis.Message); isMessage != (direction == redistest.Requests) {
				t.Errorf("received %v", got)
			}
			open := p.Counts().Open
			p.Heal()
			p.mustIncrement(t) // on a new connection
			p.value(t, arrived+1)
			if direction == redistest.Replies {
				if err := p.straight.Publish(t.Context(), p.another, "late").Err(); err != nil {
					t.Fatal(err)
				}
				if got, err := sub.ReceiveTimeout(t.Context(), 100*time.Millisecond); err == nil {
					t.Errorf("a connection that lost a message brought another: %v", got)
				}
			}
			if c := p.Counts(); c.Cut != 0 || open == 0 {
				t.Errorf("%d open, %+v", open, c)
			}
		})
	}
}

func TestPauseHoldsAndHealDelivers(t *testing.T) {
	t.Parallel()
	p := newPath(t)
	p.mustIncrement(t)
	p.Pause(redistest.Requests)
	wantTimeout(t, p.increment(t))
	p.value(t, 1)
	p.Heal()
	p.value(t, 2)
	p.mustIncrement(t)
}

func TestCutAllResetsConnectionsAndTakesNewOnes(t *testing.T) {
	t.Parallel()
	p := newPath(t)
	sub := p.client.Subscribe(t.Context(), p.another)
	defer sub.Close()
	if _, err := sub.ReceiveTimeout(t.Context(), 5*time.Second); err != nil {
		t.Fatal(err)
	}
	p.CutAll()
	if got, err := sub.ReceiveTimeout(t.Context(), 5*time.Second); err == nil {
		t.Errorf("the subscription goes on with %v", got)
	} else if timeout, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](err); ok && timeout.Timeout() {
		t.Errorf("nothing is cut: %v", err)
	}
	p.mustIncrement(t)
}

func TestTheSeedDecidesWhatSometimesHits(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	hits := func(seed uint64) string {
		p := redistest.StartProxy(t, s.Addr(), seed)
		p.Sometimes(0.3, redistest.Answer("ERR hit"), "echo")
		opts := s.Options()
		opts.Addr = p.Addr()
		client := redis.NewClient(opts)
		defer client.Close()
		var pattern []byte
		for range 64 {
			if client.Echo(t.Context(), "x").Err() != nil {
				pattern = append(pattern, 'x')
			} else {
				pattern = append(pattern, '.')
			}
		}
		if n := p.Counts().Answered; n < 5 || n > 40 {
			t.Errorf("0.3 of 64 is %d", n)
		}
		return string(pattern)
	}
	if a, again, b := hits(1), hits(1), hits(2); a != again || a == b {
		t.Errorf("seed 1: %s\nagain:  %s\nseed 2: %s", a, again, b)
	}
}

func TestAClientOfADeadServerLearnsIt(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.StartProxy(t, s.Addr(), 1)
	opts := s.Options()
	opts.Addr, opts.MaxRetries, opts.DialerRetries = p.Addr(), -1, 1
	client := redis.NewClient(opts)
	defer client.Close()
	set(t, client, "k", "v")
	s.Kill()
	if err := client.Get(t.Context(), "k").Err(); err == nil || errors.Is(err, redis.Nil) {
		t.Error(err)
	}
	s.Restart(true)
	set(t, client, "k", "v")
}

func TestRESP2WithPubSub(t *testing.T) {
	t.Parallel()
	p := newPath(t)
	opts := p.client.Options()
	opts.Protocol = 2
	client := redis.NewClient(opts)
	defer client.Close()
	sub := client.Subscribe(t.Context(), p.key, p.another)
	defer sub.Close()
	for range 2 {
		if _, err := sub.ReceiveTimeout(t.Context(), 5*time.Second); err != nil {
			t.Fatal(err)
		}
	}
	if err := client.Publish(t.Context(), p.key, "hello").Err(); err != nil {
		t.Fatal(err)
	}
	got, err := sub.ReceiveTimeout(t.Context(), 5*time.Second)
	if message, ok := got.(*redis.Message); !ok || message.Payload != "hello" {
		t.Errorf("%v, %v", got, err)
	}
}
