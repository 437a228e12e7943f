package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

func TestRedisURLsSayWhereAndNothingElse(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ url, name, id string }{
		{"redis://host", "redis://host:6379/0", "redis://host:6379/0#lock:"},
		{"redis://user:canary@host:1/2", "redis://host:1/2", "redis://host:1/2#lock:"},
		{"redis://:p%2F%3F%23%40%3A%25@[::1]:1/", "redis://[::1]:1/0", "redis://[::1]:1/0#lock:"},
		{"rediss://:canary@host", "rediss://host:6379/0", "redis://host:6379/0#lock:"},
		{"redis+sentinel://u:canary@b,a:1/main?db=3&sentinel-password=canary", "redis+sentinel://b:26379,a:1/main?db=3", "redis+sentinel://a:1,b:26379/main?db=3#lock:"},
		{"rediss+sentinel://a:1/main", "rediss+sentinel://a:1/main", "redis+sentinel://a:1/main#lock:"},
		{"redis+cluster://u:canary@b,a:1", "redis+cluster://b:6379,a:1", "redis+cluster://a:1,b:6379#lock:"},
		{"redis+cluster://a:1,b", "redis+cluster://a:1,b:6379", "redis+cluster://a:1,b:6379#lock:"},
		{"redis+cluster://[::1]/", "redis+cluster://[::1]:6379", "redis+cluster://[::1]:6379#lock:"},
		{"rediss+cluster://:canary@a:1/0?ca=file", "rediss+cluster://a:1", "redis+cluster://a:1#lock:"},
	} {
		r, err := parseRedis(c.url)
		if err != nil {
			t.Errorf("%s: %v", c.url, err)
			continue
		}
		if name, id := r.name(), r.id(defaultPrefix); name != c.name || id != c.id {
			t.Errorf("%s: name %s, want %s; id %s, want %s", c.url, name, c.name, id, c.id)
		}
	}
}

func TestPasswordsAreUnescaped(t *testing.T) {
	t.Parallel()
	r, err := parseRedis("redis+sentinel://us%3Aer:p%2F%3F%23%40%3A%25@host/main?sentinel-user=me&sentinel-password=a%26b")
	if err != nil {
		t.Fatal(err)
	}
	o := r.options(nil)
	got := []string{o.Username, o.Password, o.SentinelUsername, o.SentinelPassword}
	if want := []string{"us:er", "p/?#@:%", "me", "a&b"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// One host of a Cluster must not make a client of one server, which would follow no slot.
func TestEachSchemeHasItsClient(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"redis://host":                "*redis.Client",
		"redis+sentinel://a,b/main":   "*redis.Client",
		"redis+cluster://host":        "*redis.ClusterClient",
		"rediss+cluster://u:p@a,b:1/": "*redis.ClusterClient",
	} {
		r, err := parseRedis(url)
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		client := redis.NewUniversalClient(r.options(nil))
		if got := fmt.Sprintf("%T", client); got != want {
			t.Errorf("%s makes a %s, want %s", url, got, want)
		}
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	}
}

// What stands in the wrong place may be a password.
func FuzzRedisURLErrorsRepeatNothing(f *testing.F) {
	for _, part := range []string{":%s@h", "%s@h", "h/%s", "h?%s", "h?db=%s", "h#%s", "%s", "h:%s", ":a/%s@h", "h,h/%s?db=x", "h,%s"} {
		f.Add(part)
	}
	f.Fuzz(func(t *testing.T, pattern string) {
		for _, scheme := range redisSchemes {
			_, err := parseRedis(scheme + "://" + strings.ReplaceAll(pattern, "%s", canary))
			if err != nil && strings.Contains(err.Error(), canary) {
				t.Errorf("%s://%s: %v", scheme, pattern, err)
			}
		}
	})
}
