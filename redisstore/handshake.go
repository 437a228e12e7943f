package redisstore

import (
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"strings"
)

// handshake says what to check if err is of a TLS handshake that failed, and is "" otherwise. On such a connection nothing is sent, or nothing is read: in TLS 1.3 a client
// without a certificate learns of the server's no with the first answer only.
func handshake(err error) string {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return "the server's certificate is not trusted: check RootCAs and ServerName of the client's TLSConfig, and the certificate"
	}
	if e, ok := errors.AsType[tls.RecordHeaderError](err); ok && e.Conn != nil { // else it came later
		return "the server does not speak TLS: check its port, and TLSConfig of the client"
	}
	if e, ok := errors.AsType[*net.OpError](err); ok && (e.Op == "remote error" || e.Op == "local error") {
		if alert := strings.TrimPrefix(e.Err.Error(), "tls: "); slices.Contains(alerts, alert) {
			return "the TLS handshake failed: check Certificates, ServerName and MinVersion of the client's TLSConfig"
		}
	}
	return ""
}

// alerts are those that only a handshake gives (RFC 8446, section 6.2), in the words of crypto/tls.
var alerts = []string{
	"handshake failure", "bad certificate", "unsupported certificate", "revoked certificate", "expired certificate", "unknown certificate", "unrecognized name",
	"unknown certificate authority", "access denied", "protocol version not supported", "insufficient security level", "missing extension", "unsupported extension",
	"bad certificate status response", "unknown PSK identity", "certificate required", "no application protocol",
}
