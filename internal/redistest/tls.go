package redistest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// TLS says what kind of TLS a server speaks.
type TLS struct {
	Mutual  bool // clients need a certificate too; Options has one
	Expired bool // the server's certificate is out of date
}

// Files are the PEM files of a server with TLS, for programs that take their names.
type Files struct {
	CA          string // what clients must trust
	Certificate string // a client's
	Key         string // a client's
}

// certificates are a server's CA, its own certificate, and its clients'.
type certificates struct {
	dir    string
	mutual bool
	client *tls.Config
}

// TLSFiles are the files of a server with [WithTLS].
func (s *Server) TLSFiles() Files {
	s.t.Helper()
	if s.tls == nil {
		s.t.Fatal("the server runs without redistest.WithTLS")
	}
	return Files{CA: s.tls.file("ca.crt"), Certificate: s.tls.file("client.crt"), Key: s.tls.file("client.key")}
}

func (c *certificates) file(name string) string { return filepath.Join(c.dir, name) }

func (c *certificates) config() []string {
	clients := "no"
	if c.mutual {
		clients = "yes"
	}
	return []string{
		"tls-ca-cert-file " + strconv.Quote(c.file("ca.crt")),
		"tls-cert-file " + strconv.Quote(c.file("server.crt")),
		"tls-key-file " + strconv.Quote(c.file("server.key")),
		"tls-auth-clients " + clients,
		// Towards other servers, as their replica or sentinel, or in a cluster.
		"tls-replication yes",
		"tls-cluster yes",
		"tls-client-cert-file " + strconv.Quote(c.file("client.crt")),
		"tls-client-key-file " + strconv.Quote(c.file("client.key")),
	}
}

func issueCertificates(t testing.TB, dir string, kind TLS) *certificates {
	t.Helper()
	c := &certificates{dir: dir, mutual: kind.Mutual}
	now := time.Now()
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "picket test CA"}, NotBefore: now.Add(-48 * time.Hour), NotAfter: now.Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	caKey := newKey(t)
	c.sign(t, "ca", authority, authority, caKey, caKey)

	server := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "picket test server"}, NotBefore: now.Add(-48 * time.Hour), NotAfter: now.Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if kind.Expired {
		server.NotAfter = now.Add(-24 * time.Hour)
	}
	c.sign(t, "server", server, authority, newKey(t), caKey)

	client := &x509.Certificate{
		SerialNumber: big.NewInt(3), Subject: pkix.Name{CommonName: "picket test client"}, NotBefore: now.Add(-48 * time.Hour), NotAfter: now.Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	c.sign(t, "client", client, authority, newKey(t), caKey)

	c.client = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool()}
	ca, err := os.ReadFile(c.file("ca.crt"))
	if err != nil || !c.client.RootCAs.AppendCertsFromPEM(ca) {
		t.Fatal("the CA's certificate cannot be read", err)
	}
	if kind.Mutual {
		own, err := tls.LoadX509KeyPair(c.file("client.crt"), c.file("client.key"))
		if err != nil {
			t.Fatal(err)
		}
		c.client.Certificates = []tls.Certificate{own}
	}
	return c
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// sign writes name.crt and name.key.
func (c *certificates) sign(t testing.TB, name string, subject, authority *x509.Certificate, key, caKey *ecdsa.PrivateKey) {
	t.Helper()
	certificate, err := x509.CreateCertificate(rand.Reader, subject, authority, key.Public(), caKey)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{
		name + ".crt": {Type: "CERTIFICATE", Bytes: certificate},
		name + ".key": {Type: "PRIVATE KEY", Bytes: private},
	} {
		if err := os.WriteFile(c.file(file), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
