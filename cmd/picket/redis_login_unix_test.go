//go:build unix

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Neither ps nor the job's environment has a password that came from a file. What picket prints is checked at the end of each process of these tests.
func TestPasswordFromAFileStaysThere(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	for name, with := range map[string]struct {
		flags []string
		env   string
	}{
		"flag":     {flags: []string{"--store-file", "url"}},
		"variable": {env: "PICKET_STORE_FILE=url"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDirectory(t)
			if err := os.WriteFile(filepath.Join(d.path, "url"), []byte(s.url()+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			script := `env >env.new; mv env.new env; echo $$ >pid; exec sleep 1000`
			args := append([]string{"-u", "PICKET_STORE", with.env, binary, "run", "-v"}, append(with.flags, "k", "sh", "-c", script)...)
			if with.env == "" {
				args = append(args[:2], args[3:]...)
			}
			p := d.start("env", args...)
			pid := d.pid("pid")
			shown, err := exec.Command("ps", "-o", "args=", "-p", fmt.Sprintf("%d,%d", p.cmd.Process.Pid, pid)).Output()
			if err != nil || !strings.Contains(string(shown), "run -v") || strings.Contains(string(shown), canary) {
				t.Errorf("ps shows %q, %v", shown, err)
			}
			env, err := os.ReadFile(filepath.Join(d.path, "env"))
			if err != nil || !strings.Contains(string(env), "PICKET_HELD=redis") || strings.Contains(string(env), canary) {
				t.Errorf("the command's environment is %q, %v", env, err)
			}
			p.signal(syscall.SIGTERM)
			p.wantExit(143)
		})
	}
}

// startRedis gives its user these rules, and all tests on Redis run under them.
func TestPermissionsInTheDocumentationAreThoseOfTheTests(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../../docs/redis.md")
	if err != nil {
		t.Fatal(err)
	}
	if line := "\nACL SETUSER picket on >password " + aclRules(defaultPrefix) + "\n"; !strings.Contains(string(doc), line) {
		t.Errorf("docs/redis.md lacks the line %q", line)
	}
}

// A picket inside a picket finds the store, and what is held, in what it inherits.
func TestNestedPicketUsesTheStoreOfTheEnvironment(t *testing.T) {
	t.Parallel()
	s, d := newRedis(t)
	p := d.run("k", binary, "run", "-q", "k2", "sh", "-c", "echo up; exec sleep 1000")
	p.says("up")
	if n, err := s.Exists(s.ctx(), record("k"), record("k2")).Result(); err != nil || n != 2 {
		t.Errorf("%d records, %v", n, err)
	}
	p.signal(syscall.SIGTERM)
	p.wantExit(143)
}

func TestRefusalsOfTheServerSayWhatToDo(t *testing.T) {
	t.Parallel()
	s := startRedis(t, "user weak on >"+canary+" ~lock:* -@all +@connection")
	tls := startRedisWith(t, newCertificate(t))
	untrusted, _, _ := strings.Cut(tls.url(), "?")
	sentinel := startSentinel(t, s)
	at := func(login string) string { return fmt.Sprintf("redis://%s%s/0", login, s.addr()) }
	wantRefusals(t, map[string]refused{
		"wrong password": {at("picket:" + canary + "x@"), "the user name or the password is wrong: check the URL (WRONGPASS)", quickly},
		"wrong user":     {at("nobody:" + canary + "@"), "the user name or the password is wrong", quickly},
		"no password":    {at(""), "the server wants a password: put the URL with it into PICKET_STORE", quickly},
		"no permission":  {at("weak:" + canary + "@"), "ACL SETUSER name " + aclRules(defaultPrefix), quickly},
		"no database":    {at("picket:"+canary+"@") + "99", "no database of that number", quickly},
		"no such host":   {"redis://:" + canary + "@no-such-host.invalid", "host no-such-host.invalid is not known", stated},
		"no listener":    {fmt.Sprintf("redis://:%s@127.0.0.1:%d", canary, freePort(t)), "connection refused: check that the server runs", stated},
		"unknown CA":     {untrusted, "certificate signed by unknown authority: check that the server speaks TLS, and name its CA with ?ca=FILE", stated},
		"TLS, by name":   {strings.Replace(tls.url(), "127.0.0.1", "localhost", 1), "TLS: x509: ", stated},
		"TLS, and plain": {strings.Replace(untrusted, "rediss", "redis", 1), "picket: store redis://127.0.0.1:", stated},
		"other master":   {fmt.Sprintf("redis+sentinel://picket:%[1]s@%s/other?sentinel-user=admin&sentinel-password=%[1]s", canary, sentinel.addr()), "the Sentinels know no master of that name", stated},
		"no Sentinel":    {fmt.Sprintf("redis+sentinel://picket:%[1]s@%[2]s/main?sentinel-user=admin&sentinel-password=%[1]s", canary, s.addr()), "the server is no Sentinel: check the URL, or begin it with redis:// ", stated},
		"Sentinel login": {fmt.Sprintf("redis+sentinel://picket:%s@%s/main", canary, sentinel.addr()), "the server wants a password", quickly},
	})
}

// Which of library, store and connection finds the silence out depends on the command; what it says does not.
func TestSilenceSaysWhatToDo(t *testing.T) {
	t.Parallel()
	stopped := startRedis(t)
	stopped.signal(syscall.SIGSTOP)
	const silent, foreign = "no answer: check that the server runs and can be reached", "what answers is no Redis, or wants TLS: check the URL (can't parse "
	wantRefusals(t, map[string]refused{
		"stopped":         {stopped.url(), silent, stated},
		"silent":          {"redis://" + silentAddr(t), silent, stated},
		"silent, TLS":     {"rediss://" + silentAddr(t), "no answer: check that the server runs, can be reached and speaks TLS", stated},
		"silent Cluster":  {clusterURL(silentAddr(t)), silent, stated},
		"silent Sentinel": {"redis+sentinel://" + silentAddr(t) + "/main", silent, stated},
		"HTTP":            {"redis://" + foreignAddr(t, "HTTP/1.1 400 Bad Request\r\n\r\n"), foreign, stated},
		"SSH":             {"redis://" + foreignAddr(t, "SSH-2.0-OpenSSH_9.0\r\n"), foreign, stated},
		"hangs up":        {"redis://" + foreignAddr(t, ""), "the connection was closed without an answer: check that the server runs, and the URL", stated},
	})
}

// The job is done, and its exit code stands; what became of the lock is said in the words that other commands have for the same answer.
func TestReleaseThatIsRefusedSaysWhatToDo(t *testing.T) {
	t.Parallel()
	s, d := newRedis(t)
	p := d.run("k", "sh", "-c", `echo up; while ! test -e go; do sleep 0.05; done; exit 7`)
	p.says("up")
	if err := s.Do(s.ctx(), "acl", "deluser", "picket").Err(); err != nil { // ends its connections too
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(d.path, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p.wantExit(7)
	p.complains(`/0: releasing "k": the user name or the password is wrong: check the URL (WRONGPASS)` + "\n")
}

// A server that is gone at the end of the job has no name of a package before its words either.
func TestReleaseWithoutServerSaysWhenTheKeyIsFree(t *testing.T) {
	t.Parallel()
	s, d := newRedis(t)
	p := d.run("k", "sh", "-c", `echo up; while ! test -e go; do sleep 0.05; done; exit 7`)
	p.says("up")
	s.signal(syscall.SIGKILL)
	if err := os.WriteFile(filepath.Join(d.path, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p.wantExit(7)
	p.complains(`/0: release of "k" (token `)
	p.complains("at the latest")
	if text := p.err.String(); strings.Contains(text, "redisstore") || strings.Contains(text, "releasing") {
		t.Errorf("stderr is %q", text)
	}
}

// refused is a URL, and what picket says of its server within a time.
type refused struct {
	url, says string
	within    time.Duration
}

const quickly, stated = 2 * time.Second, 6 * time.Second // the second one is for what may be over in a moment

func wantRefusals(t *testing.T, all map[string]refused) {
	t.Helper()
	for name, c := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDirectory(t)
			d.store = c.url
			began := time.Now()
			p := d.run("-n", "k", "true")
			p.wantExit(exitUnavailable)
			if took := time.Since(began); took > c.within+patience/10 {
				t.Errorf("it took %s", took)
			}
			p.complains(c.says)
			text := strings.TrimSpace(p.err.String())
			if lines := strings.Split(text, "\n"); len(lines) != 1 || !strings.HasPrefix(text, "picket: store redis") {
				t.Errorf("stderr has %d lines: %q", len(lines), text)
			}
			for _, args := range [][]string{{"inspect", "k"}, {"ls"}} { // whoever asks, the server is the same
				eventually(t, strings.Join(args, " ")+" says "+strconv.Quote(c.says), func() bool { // on a busy machine the handshakes with a Cluster may take longer than a call
					p := d.start(binary, args...)
					p.wantExit(exitUnavailable)
					p.complains("\n")
					return strings.Contains(p.err.String(), c.says)
				})
			}
		})
	}
}

func TestStoresThatAreReachedOtherwise(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	sentinel := startSentinel(t, s)
	tls := startRedisWith(t, newCertificate(t))
	for name, url := range map[string]string{
		"TLS":      tls.url(),
		"Sentinel": fmt.Sprintf("redis+sentinel://picket:%[1]s@127.0.0.1:1,%s/main?sentinel-user=admin&sentinel-password=%[1]s", canary, sentinel.addr()),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDirectory(t)
			d.store = url
			holder := d.run("k", "sh", "-c", "echo $$ >pid; exec sleep 1000")
			d.pid("pid")
			if !d.busy("k") {
				t.Error("the key is free")
			}
			waiter := d.start(binary, "run", "k", "true")
			waiter.complains("waiting for")
			holder.signal(syscall.SIGTERM)
			holder.wantExit(143)
			waiter.wantExit(0)
		})
	}
}
