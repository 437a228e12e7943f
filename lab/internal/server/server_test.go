package server_test

import (
	"errors"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/picket-go/picket/lab/internal/server"
	"github.com/picket-go/picket/lab/internal/servertest"
)

func TestServerCountsCallsAndIsGoneAfterClose(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	client := redis.NewClient(&redis.Options{Addr: s.Addr, MaxRetries: -1, DialerRetries: 1})
	defer client.Close()
	for range 3 {
		if err := client.Set(t.Context(), "k", "v", 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	calls, err := s.Calls(t.Context())
	if err != nil || calls["set"] != 3 {
		t.Errorf("Calls: %v, %v, want 3 of set", calls, err)
	}
	s.Close()
	if err := client.Ping(t.Context()).Err(); err == nil {
		t.Error("the server answers after Close")
	}
}

func TestMissingProgramIsNamedWithTheLineThatInstallsIt(t *testing.T) {
	t.Parallel()
	_, err := server.Find("redis-nothing")
	if !errors.Is(err, server.ErrMissing) {
		t.Fatal(err)
	}
	const want = `redis-nothing is not in PATH: install it with "apt-get install -y redis-server redis-tools" or "brew install redis"`
	if err.Error() != want {
		t.Errorf("%v\nwant %s", err, want)
	}
}
