package redisstore_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/picket-go/picket"
	"github.com/picket-go/picket/internal/redistest"
)

// TestAConnectionThatFailsSaysWhatToCheck covers GL-53: no command has been sent, so no claim is in doubt.
func TestAConnectionThatFailsSaysWhatToCheck(t *testing.T) {
	t.Parallel()
	plain := redistest.Start(t, redistest.WithPassword(canary))
	secure := redistest.Start(t, redistest.WithTLS(redistest.TLS{Mutual: true}))
	expired := redistest.Start(t, redistest.WithTLS(redistest.TLS{Expired: true}))
	to := func(s *redistest.Server, change func(*redis.Options)) *redis.Client {
		o := s.Options()
		o.DialerRetries = 1
		change(o)
		return redis.NewClient(o)
	}
	by := func(s *redistest.Server, change func(*redis.FailoverOptions)) *redis.Client {
		o := &redis.FailoverOptions{MasterName: "m", SentinelAddrs: []string{"127.0.0.1:1", s.Addr()}, Password: canary, DialerRetries: 1}
		change(o)
		return redis.NewFailoverClient(o)
	}
	for name, tt := range map[string]struct {
		client *redis.Client
		want   error
		says   string
	}{
		"no such database":  {to(plain, func(o *redis.Options) { o.DB = 99 }), picket.ErrRefused, "no database of that number: check DB"},
		"wrong password":    {to(plain, func(o *redis.Options) { o.Password += "x" }), picket.ErrRefused, "password is wrong"},
		"unknown authority": {to(secure, func(o *redis.Options) { o.TLSConfig.RootCAs = nil }), picket.ErrUnavailable, "not trusted: check RootCAs"},
		"another name":      {to(secure, func(o *redis.Options) { o.TLSConfig.ServerName = "elsewhere" }), picket.ErrUnavailable, "check RootCAs and ServerName"},
		"out of date":       {to(expired, func(*redis.Options) {}), picket.ErrUnavailable, "not trusted"},
		"no certificate":    {to(secure, func(o *redis.Options) { o.TLSConfig.Certificates = nil }), picket.ErrUnavailable, "check Certificates"},
		"old TLS": {to(secure, func(o *redis.Options) {
			o.TLSConfig.MinVersion, o.TLSConfig.MaxVersion = tls.VersionTLS10, tls.VersionTLS10
		}), picket.ErrUnavailable, "MinVersion"},
		"no TLS there": {
			to(plain, func(o *redis.Options) { o.Addr, o.TLSConfig = greeter(t, full), secure.Options().TLSConfig }), picket.ErrUnavailable, "does not speak TLS: check its port",
		},
		"protected mode": {
			to(plain, func(o *redis.Options) { o.Addr = greeter(t, protected) }), picket.ErrRefused, "protected mode: set a password",
		},
		"protected mode, RESP 2": {
			to(plain, func(o *redis.Options) { o.Addr, o.Protocol = greeter(t, protected), 2 }), picket.ErrRefused, "protected mode: set a password",
		},
		"too many clients": {to(crowded(t), func(*redis.Options) {}), picket.ErrUnavailable, "raise maxclients"},
		"no Sentinel": {
			by(plain, func(o *redis.FailoverOptions) { o.SentinelAddrs = o.SentinelAddrs[:1] }), picket.ErrUnavailable, "no connection to a Sentinel",
		},
		"a server for a Sentinel": {
			by(plain, func(o *redis.FailoverOptions) { o.SentinelPassword = canary }), picket.ErrRefused, "no Sentinel: check SentinelAddrs",
		},
		"Sentinel of unknown authority": {
			by(secure, func(o *redis.FailoverOptions) { o.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12} }), picket.ErrUnavailable, "not trusted: check RootCAs",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantUnsent(t, tt.client, tt.want, tt.says)
		})
	}
}

// wantUnsent wants an error without doubt, and one line that says what to do. A machine that is busy may take longer than an attempt to come to it.
func wantUnsent(t *testing.T, c *redis.Client, want error, says string) {
	t.Helper()
	t.Cleanup(func() { _ = c.Close() })
	s := store(t, c)
	_, err := s.Acquire(t.Context(), claim("k"))
	for range 20 {
		if !errors.Is(err, context.DeadlineExceeded) {
			break
		}
		_, err = s.Acquire(t.Context(), claim("k"))
	}
	if !errors.Is(err, want) || !unsent(err) {
		t.Errorf("Acquire = %v, want %v without doubt", err, want)
		return
	}
	if text := err.Error(); !strings.Contains(text, says) || strings.Contains(text, canary) || strings.Contains(text, "\n") {
		t.Errorf("%q, want one line with %q and without the password", text, says)
	}
}

const (
	full      = "-ERR max number of clients reached\r\n"
	protected = "-DENIED Redis is running in protected mode because protected mode is enabled and no password is set for the default user.\r\n"
)

// crowded is a server that takes no more connections.
func crowded(t *testing.T) *redistest.Server {
	s := redistest.Start(t, redistest.WithConfig("maxclients 8"))
	for range 20 {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
	}
	return s
}

// greeter is the address of a server that speaks first and hangs up, as Redis does when it turns a connection away.
func greeter(t *testing.T, says string) string {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	t.Cleanup(func() {
		_ = l.Close()
		wg.Wait()
	})
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte(says))
			_ = conn.Close()
		}
	})
	return l.Addr().String()
}

// TestTheStoreIsBehindSentinelInTLS from end to end: the Sentinels and the servers. What is wrong with the Sentinels is told in their own words.
func TestTheStoreIsBehindSentinelInTLS(t *testing.T) {
	if testing.Short() {
		t.Skip("five servers")
	}
	t.Parallel()
	sentinels := redistest.StartSentinels(t, redistest.SentinelConfig{
		Servers:   []redistest.Option{redistest.WithTLS(redistest.TLS{Mutual: true})},
		Sentinels: []redistest.Option{redistest.WithPassword(canary), redistest.WithACL("weak", canary, "-@all +@connection")},
	})
	s := store(t, sentinels.FailoverClient(t))
	if err := acquired(t, locker(t, s), "k").Release(t.Context()); err != nil {
		t.Errorf("Release = %v", err)
	}
	_, stop, err := s.Watch(t.Context(), claim("k"))
	if err != nil {
		t.Fatalf("Watch = %v", err)
	}
	stop()
	for _, tt := range []struct {
		change func(*redis.FailoverOptions)
		want   error
		says   string
	}{
		{func(o *redis.FailoverOptions) { o.MasterName = "nobody" }, picket.ErrUnavailable, "check MasterName"},
		{func(o *redis.FailoverOptions) { o.SentinelPassword = "" }, picket.ErrRefused, "set SentinelUsername and SentinelPassword"},
		{func(o *redis.FailoverOptions) { o.SentinelPassword += "x" }, picket.ErrRefused, "password for Sentinel is wrong"},
		{func(o *redis.FailoverOptions) { o.SentinelUsername = "weak" }, picket.ErrRefused, "Sentinel's user lacks a permission"},
	} {
		o := sentinels.Options()
		o.DialerRetries = 1
		tt.change(o)
		wantUnsent(t, redis.NewFailoverClient(o), tt.want, tt.says)
	}
}
