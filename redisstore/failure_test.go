package redisstore_test

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/picket-go/picket"
	"github.com/picket-go/picket/internal/redistest"
	"github.com/picket-go/picket/redisstore"
)

// canary stands for a password: no error may show it.
const canary = "canary-7f3a"

// serverErrors are what servers say, and what it means.
var serverErrors = []struct {
	reply string
	want  error
	says  string // part of the advice
	doubt bool
}{
	{"WRONGTYPE Operation against a key holding the wrong kind of value", picket.ErrRefused, "another prefix", false},
	{"READONLY You can't write against a read only replica.", picket.ErrUnavailable, "connect to the master", false},
	{"OOM command not allowed when used memory > 'maxmemory'.", picket.ErrRefused, "maxmemory", false},
	{"LOADING Redis is loading the dataset in memory", picket.ErrUnavailable, "loading", false},
	{"NOAUTH Authentication required.", picket.ErrRefused, "wants a password", false},
	{"WRONGPASS invalid username-password pair or user is disabled.", picket.ErrRefused, "password is wrong", false},
	{"ERR invalid password", picket.ErrRefused, "password is wrong", false},
	{"NOPERM this user has no permissions to run the 'evalsha' command", picket.ErrRefused, "ACL line", false},
	{"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.", picket.ErrRefused, "disk", false},
	{"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.", picket.ErrUnavailable, "SCRIPT KILL", false},
	{"NOREPLICAS Not enough good replicas to write.", picket.ErrUnavailable, "min-replicas-to-write", false},
	{"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.", picket.ErrUnavailable, "failover", false},
	{"CLUSTERDOWN The cluster is down", picket.ErrUnavailable, "cluster is down", false},
	{"TRYAGAIN Multiple keys request during rehashing of slot", picket.ErrUnavailable, "try again", false},
	{"MOVED 3999 127.0.0.1:1", picket.ErrUnsupported, "Cluster", false},
	{"ASK 3999 127.0.0.1:1", picket.ErrUnsupported, "Cluster", false},
	{"NOSCRIPT No matching script. Please use EVAL.", picket.ErrUnavailable, "SCRIPT FLUSH", false},
	{"ERR max number of clients reached", picket.ErrUnavailable, "maxclients", false},
	{"ERR unknown command 'evalsha', with args beginning with: ", picket.ErrRefused, "Redis 7.0", false},
	{"ERR Protocol error: unauthenticated multibulk length", picket.ErrRefused, "wants a password", false},
	{"DENIED Redis is running in protected mode", picket.ErrRefused, "protected mode", false},
	{"ERR DB index is out of range", picket.ErrRefused, "check DB", false},
	{"ERR SELECT is not allowed in cluster mode", picket.ErrUnsupported, "Cluster", false},
	{"ERR Protocol error: invalid multibulk length", picket.ErrUnavailable, "answered with an error", true},
}

// operations is every call of a Store that sends something, by what its errors begin with.
func operations(s *redisstore.Store) map[string]func(context.Context, picket.Claim) error {
	return map[string]func(context.Context, picket.Claim) error{
		"acquire": func(ctx context.Context, c picket.Claim) error { _, err := s.Acquire(ctx, c); return err },
		"release": s.Release,
		"renew": func(ctx context.Context, c picket.Claim) (err error) {
			s.Renew(ctx, []picket.Claim{c}, func(_ int, e error) { err = e })
			return err
		},
		"transfer": func(ctx context.Context, c picket.Claim) error {
			_, err := s.Transfer(ctx, c, claim(c.Key))
			return err
		},
		"inspect": func(ctx context.Context, c picket.Claim) error { _, err := s.Inspect(ctx, c.Key); return err },
		"break":   func(ctx context.Context, c picket.Claim) error { return s.Break(ctx, c.Key, 1) },
		"reissue": func(ctx context.Context, c picket.Claim) error { _, err := s.Reissue(ctx, c, 1); return err },
		"list": func(ctx context.Context, c picket.Claim) error {
			for _, err := range s.List(ctx, c.Key) {
				return err
			}
			return nil
		},
		"watch": func(ctx context.Context, c picket.Claim) error {
			_, stop, err := s.Watch(ctx, c)
			if err == nil {
				stop()
			}
			return err
		},
	}
}

func claim(key string) picket.Claim {
	return picket.Claim{ID: rand.Text(), Key: key, TTL: 10 * time.Second, Holder: picket.Holder{Host: "here", PID: 1}}
}

// TestEveryCallTellsEveryServerErrorForWhatItIs covers GL-53 and GL-65: the right sentinel, what to do about it, in doubt only if part of it may have been executed, and
// nothing left behind.
func TestEveryCallTellsEveryServerErrorForWhatItIs(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.WithPassword(canary))
	for _, op := range []string{"acquire", "release", "renew", "transfer", "inspect", "break", "reissue", "list", "watch"} {
		proxy := redistest.StartProxy(t, server.Addr(), 1)
		o := server.Options()
		o.Addr = proxy.Addr()
		for _, e := range serverErrors {
			word, _, _ := strings.Cut(e.reply, " ")
			t.Run(op+" "+word, func(t *testing.T) {
				c := redis.NewClient(o) // with a Store of its own: a subscription that was refused is tried again beside the next
				t.Cleanup(func() { _ = c.Close() })
				call := operations(store(t, c))[op]
				proxy.Heal()
				proxy.Sometimes(1, redistest.Answer(e.reply), "evalsha", "eval", "scan", "subscribe")
				before := proxy.Counts().Answered
				err := call(t.Context(), claim("k"))
				text := ""
				if err != nil {
					text = err.Error()
				}
				if !errors.Is(err, e.want) || !strings.HasPrefix(text, "redisstore: "+op) || !strings.Contains(text, e.says) {
					t.Errorf("%v\nwant %v of %s, with %q", err, e.want, op, e.says)
				}
				if strings.Contains(text, canary) || strings.Contains(text, "\n") {
					t.Errorf("the error shows the password or has several lines: %q", text)
				}
				unsent, ok := errors.AsType[interface {
					error
					Unsent() bool
				}](err)
				if !ok || unsent.Unsent() == e.doubt {
					t.Errorf("%v: in doubt must be %v", err, e.doubt)
				}
				if n := proxy.Counts().Answered - before; op != "watch" && n > 1 && (n > 2 || word != "NOSCRIPT") {
					t.Errorf("%d commands were sent, want one", n)
				}
			})
		}
	}
	if keys := server.Client(t).Keys(t.Context(), "*").Val(); len(keys) > 0 {
		t.Errorf("keys are left: %v", keys)
	}
}

// TestNoConnectionIsNoDoubt covers W4 and GL-53: nothing left the process, so nothing needs to be undone.
func TestNoConnectionIsNoDoubt(t *testing.T) {
	t.Parallel()
	c := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", Password: canary})
	t.Cleanup(func() { _ = c.Close() })
	s := store(t, c)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	_, err := s.Acquire(ctx, claim("k"))
	if !errors.Is(err, picket.ErrUnavailable) || !unsent(err) {
		t.Errorf("Acquire = %v, want ErrUnavailable without doubt", err)
	}
	began := time.Now()
	ctx, cancel = context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err = locker(t, s).Acquire(ctx, "k")
	if took := time.Since(began); took > time.Second || !errors.Is(err, picket.ErrUnavailable) || errors.Is(err, picket.ErrBusy) {
		t.Errorf("Acquire = %v after %v, want ErrUnavailable after 300 ms", err, took)
	}
}

func TestAWrongPasswordIsRefusedInItsOwnWords(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.WithPassword(canary))
	for _, wrong := range []string{"", canary + "-x"} {
		o := server.Options()
		o.Password = wrong
		c := redis.NewClient(o)
		t.Cleanup(func() { _ = c.Close() })
		_, err := locker(t, store(t, c)).Acquire(t.Context(), "k")
		if !errors.Is(err, picket.ErrRefused) || !strings.Contains(err.Error(), "password") || strings.Contains(err.Error(), canary) {
			t.Errorf("Acquire with password %q = %v, want ErrRefused that speaks of the password and does not tell it", wrong, err)
		}
	}
}

func TestNewRefusesWhatCannotBeRight(t *testing.T) {
	t.Parallel()
	ok := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	unbound := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", ReadTimeout: -1})
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}, ReadTimeout: -1})
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:1"}})
	for _, c := range []redis.UniversalClient{ok, unbound, cluster, ring} {
		t.Cleanup(func() { _ = c.Close() })
	}
	tests := []struct {
		name   string
		client redis.UniversalClient
		opts   []redisstore.Option
		want   error
	}{
		{"no client", nil, nil, picket.ErrInvalid},
		{"a nil *redis.Client", (*redis.Client)(nil), nil, picket.ErrInvalid},
		{"no read timeout", unbound, nil, picket.ErrInvalid},
		{"a nil *redis.ClusterClient", (*redis.ClusterClient)(nil), nil, picket.ErrInvalid},
		{"no read timeout on a Cluster", cluster, nil, picket.ErrInvalid},
		{"a Ring", ring, nil, picket.ErrUnsupported},
		{"a Ring in disguise", struct{ *redis.Ring }{ring}, nil, picket.ErrUnsupported},
		{"a type that may hide one", struct{ redis.UniversalClient }{ok}, nil, picket.ErrUnsupported},
		{"a brace in the prefix", ok, []redisstore.Option{redisstore.WithPrefix("a{b")}, picket.ErrInvalid},
		{"no replicas", ok, []redisstore.Option{redisstore.WithReplicas(0, time.Second)}, picket.ErrInvalid},
		{"no time for replicas", ok, []redisstore.Option{redisstore.WithReplicas(1, 0)}, picket.ErrInvalid},
		{"fewer than no replicas", ok, []redisstore.Option{redisstore.WithAOF(-1, time.Second)}, picket.ErrInvalid},
		{"a nil report", ok, []redisstore.Option{redisstore.WithReplicaReport(nil)}, picket.ErrInvalid},
		{"a nil option", ok, []redisstore.Option{nil}, picket.ErrInvalid},
	}
	for _, tt := range tests {
		if _, err := redisstore.New(tt.client, tt.opts...); !errors.Is(err, tt.want) {
			t.Errorf("%s: New = %v, want %v", tt.name, err, tt.want)
		}
	}
}

func TestClaimsThatMakeNoSenseAreNotSent(t *testing.T) {
	t.Parallel()
	c := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	t.Cleanup(func() { _ = c.Close() })
	s := store(t, c)
	change := func(f func(*picket.Claim)) picket.Claim {
		c := claim("k")
		f(&c)
		return c
	}
	// GL-30 and L15: never PEXPIRE with nothing.
	for _, bad := range []picket.Claim{
		change(func(c *picket.Claim) { c.Key = "" }),
		change(func(c *picket.Claim) { c.ID = "" }),
		change(func(c *picket.Claim) { c.ID = "short" }),
		change(func(c *picket.Claim) { c.ID = strings.Repeat("-", 26) }),
		change(func(c *picket.Claim) { c.ID = strings.Repeat("A", 25) + "\n" }),
		change(func(c *picket.Claim) { c.TTL = 0 }),
		change(func(c *picket.Claim) { c.TTL = -time.Second }),
		change(func(c *picket.Claim) { c.TTL = picket.NoExpiry }),
		change(func(c *picket.Claim) { c.MinHold = -1 }),
		change(func(c *picket.Claim) { c.LockDelay = picket.NoExpiry }),
		change(func(c *picket.Claim) { c.Recheck = -1 }),
	} {
		if _, err := s.Acquire(t.Context(), bad); !errors.Is(err, picket.ErrInvalid) {
			t.Errorf("Acquire(%+v) = %v, want ErrInvalid", bad, err)
		}
	}
}
