package redistest_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/picket-go/picket/internal/redistest"
)

func TestMain(m *testing.M) { os.Exit(redistest.Main(m)) }

func set(t *testing.T, client *redis.Client, key, value string) {
	t.Helper()
	if err := client.Set(t.Context(), key, value, 0).Err(); err != nil {
		t.Fatal(err)
	}
}

func wantValue(t *testing.T, client *redis.Client, key, want string) {
	t.Helper()
	got, err := client.Get(t.Context(), key).Result()
	if errors.Is(err, redis.Nil) {
		got, err = "", nil
	}
	if err != nil || got != want {
		t.Fatalf("GET %s = %q, %v; want %q", key, got, err, want)
	}
}

func TestAServerHasOnlyWhatItsTestWrites(t *testing.T) {
	t.Parallel()
	a, b := redistest.Start(t), redistest.Start(t)
	set(t, a.Client(t), "k", "v")
	wantValue(t, b.Client(t), "k", "")
	if a.PID() == b.PID() || a.Info("server")["redis_mode"] != "standalone" {
		t.Fatalf("processes %d and %d, %v", a.PID(), b.PID(), a.Info("server"))
	}
	if save := a.Client(t).ConfigGet(t.Context(), "save").Val()["save"]; save != "" {
		t.Errorf("it saves at %q", save)
	}
}

func TestAServerDiesWithItsTest(t *testing.T) {
	t.Parallel()
	var addr string
	t.Run("inner", func(t *testing.T) {
		s := redistest.Start(t)
		addr = s.Addr()
		s.Stop() // The kernel still takes connections for it.
	})
	if conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr); err == nil {
		_ = conn.Close()
		t.Error("its port is still open")
	}
}

func TestAStoppedServerAnswersAfterCont(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	opts := s.Options()
	opts.ReadTimeout, opts.MaxRetries = 100*time.Millisecond, -1
	impatient := redis.NewClient(opts)
	defer impatient.Close()
	set(t, impatient, "k", "v")
	s.Stop()
	if err := impatient.Get(t.Context(), "k").Err(); err == nil {
		t.Error("a stopped server answers")
	}
	s.Cont()
	wantValue(t, s.Client(t), "k", "v")
}

func TestWhatARestartKeeps(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		opts []redistest.Option
		end  func(*redistest.Server)
		keep bool
		want string
	}{
		"without data":                        {keep: false, want: ""},
		"with a snapshot":                     {keep: true, want: "v"},
		"after a kill":                        {end: (*redistest.Server).Kill, keep: true, want: ""},
		"after a kill, append-only file":      {opts: aof("always"), end: (*redistest.Server).Kill, keep: true, want: "v"},
		"after a shutdown, append-only file":  {opts: aof("everysec"), end: (*redistest.Server).Shutdown, keep: true, want: "v"},
		"with an append-only file":            {opts: aof("no"), keep: true, want: "v"},
		"without data of an append-only file": {opts: aof("always"), keep: false, want: ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t, test.opts...)
			addr, pid := s.Addr(), s.PID()
			set(t, s.Client(t), "k", "v")
			if test.end != nil {
				test.end(s)
			}
			s.Restart(test.keep)
			if s.Addr() != addr || s.PID() == pid {
				t.Errorf("%s, process %d, became %s, process %d", addr, pid, s.Addr(), s.PID())
			}
			wantValue(t, s.Client(t), "k", test.want)
		})
	}
}

func aof(policy string) []redistest.Option {
	return []redistest.Option{redistest.WithAOF(policy)}
}

func TestAPasswordIsAskedForAndNotShown(t *testing.T) {
	t.Parallel()
	const secret = `ca"nary \ 7`
	s := redistest.Start(t, redistest.WithPassword(secret))
	set(t, s.Client(t), "k", "v")

	opts := s.Options()
	opts.Password = ""
	stranger := redis.NewClient(opts)
	defer stranger.Close()
	if err := stranger.Get(t.Context(), "k").Err(); !redis.HasErrorPrefix(err, "NOAUTH") {
		t.Errorf("without password: %v", err)
	}
	if ps, err := exec.CommandContext(t.Context(), "ps", "-ewwo", "args").Output(); err == nil && strings.Contains(string(ps), secret) {
		t.Error("ps shows the password")
	}
}

func TestAnACLUserIsLimited(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.WithACL("worker", "pw", "~lock:* +get +set"))
	opts := s.Options()
	opts.Username, opts.Password = "worker", "pw"
	worker := redis.NewClient(opts)
	defer worker.Close()
	set(t, worker, "lock:a", "v")
	if err := worker.Get(t.Context(), "other").Err(); !redis.HasErrorPrefix(err, "NOPERM") {
		t.Errorf("another key: %v", err)
	}
	if err := worker.Del(t.Context(), "lock:a").Err(); !redis.HasErrorPrefix(err, "NOPERM") {
		t.Errorf("another command: %v", err)
	}
	wantValue(t, s.Client(t), "lock:a", "v") // the default user
}

func TestDebugCommandsAreAllowedOnRequest(t *testing.T) {
	t.Parallel()
	for _, allowed := range []bool{false, true} {
		var opts []redistest.Option
		if allowed {
			opts = append(opts, redistest.WithDebugCommands())
		}
		err := redistest.Start(t, opts...).Client(t).Do(t.Context(), "debug", "sleep", "0").Err()
		if (err == nil) != allowed {
			t.Errorf("DEBUG, allowed %v: %v", allowed, err)
		}
	}
}

func TestMaxMemoryRefusesWrites(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t, redistest.WithMaxMemory("2mb", "noeviction")).Client(t)
	value := strings.Repeat("v", 1<<20)
	var err error
	for i := 0; i < 10 && err == nil; i++ {
		err = client.Append(t.Context(), "k", value).Err()
	}
	if !redis.HasErrorPrefix(err, "OOM") {
		t.Fatalf("10 MB in 2 MB: %v", err)
	}
}

func TestConfigLinesCount(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t, redistest.WithConfig("databases 3", "maxclients 77")).Client(t)
	if got := client.ConfigGet(t.Context(), "maxclients").Val()["maxclients"]; got != "77" {
		t.Errorf("maxclients is %q", got)
	}
}

func TestCommandStatsCountCalls(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client := s.Client(t)
	set(t, client, "k", "v")
	before := s.CommandStats()
	for range 3 {
		wantValue(t, client, "k", "v")
	}
	after := s.CommandStats()
	if got := after["get"] - before["get"]; got != 3 {
		t.Errorf("3 GETs are %d", got)
	}
	delete(after, "get")
	delete(before, "get")
	for name, calls := range after {
		if before[name] != calls {
			t.Errorf("%s rose from %d to %d by itself", name, before[name], calls)
		}
	}
}

func TestTheClockMovesExpiry(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.WithClock())
	client := s.Client(t)
	put := func() {
		t.Helper()
		if err := client.Set(t.Context(), "k", "v", 30*time.Second).Err(); err != nil {
			t.Fatal(err)
		}
	}
	wantTTL := func(low, high time.Duration) {
		t.Helper()
		if ttl, err := client.PTTL(t.Context(), "k").Result(); err != nil || ttl < low || ttl > high {
			t.Errorf("PTTL = %v, %v; want %v to %v", ttl, err, low, high)
		}
	}
	put()
	wantTTL(15*time.Second, 30*time.Second)
	s.SetClock(60 * time.Second)
	wantTTL(-2, -2) // no such key
	put()
	s.SetClock(60*time.Second - time.Hour)
	wantTTL(time.Hour, time.Hour+30*time.Second)
	s.SetClock(0)
	if server, err := client.Time(t.Context()).Result(); err != nil || time.Since(server).Abs() > 10*time.Second {
		t.Errorf("TIME = %v, %v", server, err)
	}
}

func TestAReplicaHasTheMastersData(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t, redistest.WithPassword("pw"))
	replica := redistest.Start(t, redistest.ReplicaOf(master))
	conn := master.Client(t).Conn()
	defer conn.Close()
	if err := conn.Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if n, err := conn.Wait(t.Context(), 1, 10*time.Second).Result(); err != nil || n != 1 {
		t.Fatalf("WAIT 1 = %d, %v", n, err)
	}
	wantValue(t, replica.Client(t), "k", "v")
	if err := replica.Client(t).Set(t.Context(), "k", "w", 0).Err(); !redis.HasErrorPrefix(err, "READONLY") {
		t.Errorf("a write to the replica: %v", err)
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	ping := func(s *redistest.Server, change func(*redis.Options)) error {
		opts := s.Options()
		opts.DialerRetries = 1
		change(opts)
		client := redis.NewClient(opts)
		defer client.Close()
		return client.Ping(t.Context()).Err()
	}
	unchanged := func(*redis.Options) {}
	server, mutual := redistest.Start(t, redistest.WithTLS(redistest.TLS{})), redistest.Start(t, redistest.WithTLS(redistest.TLS{Mutual: true}))
	expired := redistest.Start(t, redistest.WithTLS(redistest.TLS{Expired: true}), redistest.WithPassword("pw"))

	for name, s := range map[string]*redistest.Server{"plain": server, "mutual": mutual} {
		if err := ping(s, unchanged); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	wrongCA := ping(server, func(o *redis.Options) { o.TLSConfig.RootCAs = mutual.Options().TLSConfig.RootCAs })
	if _, ok := errors.AsType[x509.UnknownAuthorityError](wrongCA); !ok {
		t.Errorf("a CA that the client does not trust: %v", wrongCA)
	}
	wrongName := ping(server, func(o *redis.Options) { o.TLSConfig.ServerName = "redis.example" })
	if _, ok := errors.AsType[x509.HostnameError](wrongName); !ok {
		t.Errorf("another name: %v", wrongName)
	}
	outOfDate := ping(expired, unchanged)
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](outOfDate); !ok || invalid.Reason != x509.Expired {
		t.Errorf("a certificate out of date: %v", outOfDate)
	}
	if err := ping(mutual, func(o *redis.Options) { o.TLSConfig.Certificates = nil }); err == nil {
		t.Error("a client without certificate is let in")
	}
	if err := ping(server, func(o *redis.Options) { o.TLSConfig = nil }); err == nil {
		t.Error("a client without TLS is let in")
	}
	files := mutual.TLSFiles()
	if _, err := tls.LoadX509KeyPair(files.Certificate, files.Key); err != nil {
		t.Error(err)
	}
	if pem, err := os.ReadFile(files.CA); err != nil || !x509.NewCertPool().AppendCertsFromPEM(pem) {
		t.Errorf("%s is no CA: %v", files.CA, err)
	}
}

func TestTheSharedServerIsOne(t *testing.T) {
	t.Parallel()
	a, b := redistest.Shared(t), redistest.Shared(t)
	key := redistest.Name(t)
	set(t, a.Client(t), key, "v")
	wantValue(t, b.Client(t), key, "v")
	if a.PID() != b.PID() {
		t.Errorf("processes %d and %d", a.PID(), b.PID())
	}
}
