//go:build unix

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
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
	tls := startTLS(t)
	sentinel := startSentinel(t, s)
	at := func(login string) string { return fmt.Sprintf("redis://%s%s/0", login, s.addr()) }
	quickly, stated := 2*time.Second, 6*time.Second // the second one is for what may be over in a moment
	for name, c := range map[string]struct {
		url, says string
		within    time.Duration
	}{
		"wrong password": {at("picket:" + canary + "x@"), "the user name or the password is wrong: check the URL (WRONGPASS)", quickly},
		"wrong user":     {at("nobody:" + canary + "@"), "the user name or the password is wrong", quickly},
		"no password":    {at(""), "the server wants a password: put the URL with it into PICKET_STORE", quickly},
		"no permission":  {at("weak:" + canary + "@"), "ACL SETUSER name " + aclRules(defaultPrefix), quickly},
		"no database":    {at("picket:"+canary+"@") + "99", "no database of that number", quickly},
		"no such host":   {"redis://:" + canary + "@no-such-host.invalid", "host no-such-host.invalid is not known", stated},
		"no listener":    {fmt.Sprintf("redis://:%s@127.0.0.1:%d", canary, freePort(t)), "connection refused: check that the server runs", stated},
		"unknown CA":     {tls.url("rediss", ""), "certificate signed by unknown authority: check that the server speaks TLS, and name its CA with ?ca=FILE", stated},
		"TLS, by name":   {strings.Replace(tls.url("rediss", "?ca="+tls.ca), "127.0.0.1", "localhost", 1), "TLS: x509: ", stated},
		"TLS, and plain": {tls.url("redis", ""), "picket: store redis://127.0.0.1:", stated},
		"other master":   {fmt.Sprintf("redis+sentinel://picket:%[1]s@%s/other?sentinel-user=admin&sentinel-password=%[1]s", canary, sentinel.addr()), "the Sentinels know no master of that name", stated},
		"Sentinel login": {fmt.Sprintf("redis+sentinel://picket:%s@%s/main", canary, sentinel.addr()), "the server wants a password", quickly},
	} {
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
		})
	}
}

func TestStoresThatAreReachedOtherwise(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	sentinel := startSentinel(t, s)
	tls := startTLS(t)
	for name, url := range map[string]string{
		"TLS":      tls.url("rediss", "?ca="+tls.ca),
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

// tlsServer speaks TLS only. Its certificate is for 127.0.0.1, signed by itself.
type tlsServer struct {
	*redisServer
	ca string
}

func (s tlsServer) url(scheme, params string) string {
	return fmt.Sprintf("%s://picket:%s@%s/0%s", scheme, canary, s.addr(), params)
}

func startTLS(t *testing.T) tlsServer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "picket test"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	ca, secret := write("server.crt", "CERTIFICATE", certificate), write("server.key", "PRIVATE KEY", private)
	port := freePort(t)
	s := startRedis(t, "port 0", "tls-port "+strconv.Itoa(port), "tls-auth-clients no", "tls-cert-file "+ca, "tls-key-file "+secret, "tls-ca-cert-file "+ca)
	s.port = port
	eventually(t, "the server listens", func() bool {
		conn, err := net.Dial("tcp", s.addr())
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	return tlsServer{s, ca}
}
