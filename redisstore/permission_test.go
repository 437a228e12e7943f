package redisstore_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/picket-go/picket"
	"github.com/picket-go/picket/internal/redistest"
	"github.com/picket-go/picket/locktest"
)

// scriptCommands are what scripts and plain calls need on any server; subscribing is extra.
const scriptCommands = "+evalsha +eval +get +set +del +exists +type +time +pttl +pexpire +publish " +
	"+zadd +zcard +zrange +zrangebyscore +zrank +zrem +zscore +hget +hset +hdel +hmget +scan +info +wait"

// TestThePermissionsInTheDocumentationAreEnough runs the whole suite under them.
func TestThePermissionsInTheDocumentationAreEnough(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`ACL SETUSER picket on >secret ((?s).*?)\n//\n`).FindStringSubmatch(string(doc))
	if line == nil {
		t.Fatal("doc.go has no ACL line")
	}
	rules := strings.Join(strings.Fields(strings.ReplaceAll(line[1], "//", " ")), " ")
	rules = strings.ReplaceAll(rules, " +waitaof", "") // Redis 7.2
	server := redistest.Start(t, redistest.WithACL("picket", "secret", rules))
	o := server.Options()
	o.Username, o.Password = "picket", "secret"
	locktest.Run(t, locktest.Config{New: func(t *testing.T) picket.Store {
		c := redis.NewClient(o)
		t.Cleanup(func() { _ = c.Close() })
		return store(t, c)
	}})
}
