package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/picket-go/picket"
)

// scriptCommands are what the scripts and calls of redisstore need. Its documentation has more, for options that the command line does not use.
const scriptCommands = "+evalsha +eval +get +getrange +set +del +exists +type +time +pttl +pexpire +publish +subscribe +unsubscribe " +
	"+zadd +zcard +zrange +zrangebyscore +zrank +zrem +zscore +hget +hset +hdel +hmget +scan +info"

// clusterCommands are needed beside them on a Cluster, and taken by any server. ASKING is one of @connection.
const clusterCommands = "+cluster|slots +cluster|myid +spublish +ssubscribe +sunsubscribe"

// aclRules are the least that a Redis user needs, as ACL SETUSER takes them.
func aclRules(prefix string) string {
	return fmt.Sprintf("~%[1]s* &%[1]s* -@all +@connection %[2]s %[3]s", prefix, scriptCommands, clusterCommands)
}

// advice says in the words of the command line what to do about err, or nothing if the store's own words will do.
func (r *redisURL) advice(err error, prefix string) string {
	plain, _, _ := strings.Cut(r.scheme, "+")
	lookup, unknown := errors.AsType[*net.DNSError](err)
	dial, _ := errors.AsType[*net.OpError](err)
	switch {
	case replied(err, "WRONGPASS", "invalid password"):
		return "the user name or the password is wrong: check the URL (WRONGPASS)"
	case replied(err, "NOAUTH", "Protocol error: unauthenticated"):
		return fmt.Sprintf("the server wants a password: put the URL with it into %s, or into a file for --store-file (NOAUTH)", storeVariable)
	case replied(err, "Client sent AUTH", "AUTH <password> called without"):
		return "the server has no password, but the URL has one"
	case replied(err, "NOPERM", "The user executing the script can't", "ACL failure in script"):
		return fmt.Sprintf("the Redis user lacks a permission; this is enough: ACL SETUSER name %s (NOPERM)", aclRules(prefix))
	case replied(err, "DB index is out of range"):
		return "the server has no database of that number: check the URL"
	case replied(err, "unknown command 'sentinel'", "unknown command `sentinel`"):
		return fmt.Sprintf("the server is no Sentinel: check the URL, or begin it with %s:// if that is the Redis itself", plain)
	case replied(err, redis.Nil.Error()):
		return "the Sentinels know no master of that name: check the URL"
	case !r.clustered() && replied(err, "MOVED ", "ASK ", "CROSSSLOT ", "SELECT is not allowed in cluster mode"):
		return fmt.Sprintf("the server is a node of a Cluster: begin the URL with %s+cluster:// and name some of its nodes", plain)
	case replied(err, "This instance has cluster support disabled"):
		return fmt.Sprintf("the server belongs to no Cluster: begin the URL with %s:// and name one server", plain)
	case unknown:
		return fmt.Sprintf("host %s is not known (%s): check the URL", printable(lookup.Name), lookup.Err)
	case isTLS(err):
		return fmt.Sprintf("TLS: %s: check that the server speaks TLS, and name its CA with ?%s=FILE if the system does not know it", tlsReason(err), redisCA)
	case dial != nil && dial.Op == "dial":
		return fmt.Sprintf("no connection: %s: check that the server runs, and the URL", dial)
	case errors.Is(err, picket.ErrUnavailable):
		return r.silence(err)
	}
	return ""
}

// silence says what to do when no Redis has answered, and nothing if one has. The library, the store and the connection find it out in turn, each with a text of
// its own, and which of them does depends on the command.
func (r *redisURL) silence(err error) string {
	told, ok := words(err)
	conn, _ := errors.AsType[*net.OpError](err)
	switch {
	case ok && !strings.HasPrefix(told, "no answer from ") && !strings.HasPrefix(told, "no connection to "):
		return ""
	case replied(err, "redis: can't parse ", "redis: invalid ", "redis: the length of the array ", "redis: got "):
		_, reply, _ := strings.Cut(told, ": redis: ")
		return fmt.Sprintf("what answers is no Redis, or wants TLS: check the URL (%s)", reply)
	case errors.Is(err, io.EOF), conn != nil && !conn.Timeout():
		return "the connection was closed without an answer: check that the server runs, and the URL"
	case r.tls():
		return "no answer: check that the server runs, can be reached and speaks TLS"
	}
	return "no answer: check that the server runs and can be reached"
}

// replied reports whether a server answered with one of these words in front. It looks at the innermost errors only: those around them name the key, which is anybody's text.
func replied(err error, words ...string) bool {
	var inner []error
	switch e := err.(type) { //nolint:errorlint // It walks the tree itself.
	case interface{ Unwrap() []error }:
		inner = e.Unwrap()
	case interface{ Unwrap() error }:
		inner = []error{e.Unwrap()}
	}
	if len(inner) > 0 {
		return slices.ContainsFunc(inner, func(err error) bool { return err != nil && replied(err, words...) })
	}
	text := strings.TrimPrefix(err.Error(), "ERR ")
	return slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(text, w) })
}

func isTLS(err error) bool {
	_, certificate := errors.AsType[*tls.CertificateVerificationError](err)
	_, record := errors.AsType[tls.RecordHeaderError](err)
	_, alert := errors.AsType[tls.AlertError](err)
	return certificate || record || alert || strings.Contains(err.Error(), "remote error: tls:")
}

func tlsReason(err error) string {
	if e, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return e.Err.Error()
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return "the server does not answer in TLS"
	}
	return "the handshake failed"
}
