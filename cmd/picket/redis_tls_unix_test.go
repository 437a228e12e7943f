//go:build unix

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// certificate is for 127.0.0.1, and signed by itself. Servers have it, and their clients too: each wants to see the other's. Without one there is no TLS.
type certificate struct {
	file, key string
	config    *tls.Config // of a client
}

func newCertificate(t *testing.T) *certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "picket test"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
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
	c := &certificate{file: write("server.crt", "CERTIFICATE", der), key: write("server.key", "PRIVATE KEY", private)}
	r := redisURL{scheme: "rediss", params: map[string]string{redisCA: c.file, redisCert: c.file, redisKey: c.key}}
	if c.config, err = r.tlsConfig(); err != nil {
		t.Fatal(err)
	}
	return c
}

// listen is what redis.conf says of the port.
func (c *certificate) listen(port int) string {
	if c == nil {
		return fmt.Sprintf("port %d\n", port)
	}
	return fmt.Sprintf("port 0\ntls-port %d\ntls-cluster yes\ntls-ca-cert-file %[2]s\ntls-cert-file %[2]s\ntls-key-file %s\n", port, c.file, c.key)
}

// client is the configuration of a client.
func (c *certificate) client() *tls.Config {
	if c == nil {
		return nil
	}
	return c.config
}

// url makes of a URL without TLS what it takes to be trusted, and to trust.
func (c *certificate) url(plain string) string {
	if c == nil {
		return plain
	}
	return fmt.Sprintf("%s?%s=%s&%s=%s&%s=%s", strings.Replace(plain, "redis", "rediss", 1), redisCA, c.file, redisCert, c.file, redisKey, c.key)
}
