package redisstore_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/picket-go/picket"
	"github.com/picket-go/picket/internal/redistest"
	"github.com/picket-go/picket/locktest"
)

// scriptCommands are what scripts and plain calls need on any server; subscribing is extra.
const scriptCommands = "+evalsha +eval +get +getrange +set +del +exists +type +time +pttl +pexpire +publish " +
	"+zadd +zcard +zrange +zrangebyscore +zrank +zrem +zscore +hget +hset +hdel +hmget +scan +info +wait"

// documented are the rules of the ACL line in doc.go.
func documented(t *testing.T) string {
	t.Helper()
	doc, err := os.ReadFile("doc.go")
	_, line, ok := strings.Cut(string(doc), "ACL SETUSER picket on >secret ")
	if line, _, _ = strings.Cut(line, "\n//\n"); err != nil || !ok {
		t.Fatalf("doc.go has no ACL line: %v", err)
	}
	return strings.ReplaceAll(strings.Join(strings.Fields(strings.ReplaceAll(line, "//", " ")), " "), " +waitaof", "") // Redis 7.2
}

// TestThePermissionsInTheDocumentationAreEnough runs the whole suite under them.
func TestThePermissionsInTheDocumentationAreEnough(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.WithACL("picket", "secret", documented(t)))
	o := server.Options()
	o.Username, o.Password = "picket", "secret"
	locktest.Run(t, locktest.Config{New: func(t *testing.T) picket.Store {
		c := redis.NewClient(o)
		t.Cleanup(func() { _ = c.Close() })
		return store(t, c)
	}})
}

// TestWhoMayNotPublishGivesTheLockOnAllTheSame: nobody hears of it, and whoever is next asks in its own time.
func TestWhoMayNotPublishGivesTheLockOnAllTheSame(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.WithACL("mute", "pw", strings.ReplaceAll(documented(t), " +publish ", " ")))
	o := server.Options()
	o.Username, o.Password = "mute", "pw"
	c := redis.NewClient(o)
	t.Cleanup(func() { _ = c.Close() })
	mute, other := store(t, c), store(t, client(t, server))
	holder, waiter := claim("k"), claim("k")
	waiter.Queue = true
	if _, err := mute.Acquire(t.Context(), holder); err != nil {
		t.Fatal(err)
	}
	_, stop, err := other.Watch(t.Context(), waiter)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if _, err := other.Acquire(t.Context(), waiter); !errors.Is(err, picket.ErrBusy) {
		t.Fatal(err)
	}
	if err := mute.Release(t.Context(), holder); err != nil {
		t.Errorf("Release = %v", err)
	}
	if st, err := other.Inspect(t.Context(), "k"); err != nil || st.Holder.ID != waiter.ID {
		t.Errorf("Inspect = %+v, %v, want it handed to the waiter", st, err)
	}
	if _, err := other.Acquire(t.Context(), waiter); err != nil {
		t.Errorf("the waiter's Acquire = %v", err)
	}
}
