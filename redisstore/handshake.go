package redisstore

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
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

// admission is a hook that hears when a server turns a connection away: it says why, and hangs up. go-redis takes that for the answer of an old server to HELLO, and goes on
// with a connection that is closed (9.23).
type admission struct{}

var _ redis.Hook = admission{}

// DialHook changes nothing.
func (admission) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessPipelineHook changes nothing.
func (admission) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// ProcessHook makes such an answer to HELLO the error of whoever wants the connection. It may not be a redis.Error, which go-redis would take for another old server's.
func (admission) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if cmd.Name() != "hello" {
			return err
		}
		if reply, ok := errors.AsType[redis.Error](err); ok {
			if e := (&serverError{cause: errors.New(reply.Error()), unsent: true}); e.judge(turnedAway) {
				return e
			}
		}
		return err
	}
}
