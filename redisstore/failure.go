package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/picket-go/picket"
)

// errClosed answers calls after Close.
var errClosed error = &serverError{sentinel: picket.ErrClosed, advice: "the store was closed", unsent: true}

// serverError is the store's no, or its silence: what was asked, what came back, and what to do about it.
type serverError struct {
	subject
	sentinel error // picket.ErrRefused, ErrUnavailable, ErrUnsupported
	advice   string
	cause    error // what go-redis said, if the server did not answer
	left     error // why the caller left, if it did
	unsent   bool  // nothing was executed
}

// Error is one line.
func (e *serverError) Error() string {
	text := "redisstore: "
	if e.op != "" {
		text += e.op + " "
	}
	if e.name != "" {
		text += fmt.Sprintf("%q ", e.name)
	}
	text = strings.TrimSuffix(text, " ")
	if e.op != "" {
		text += ": "
	} else {
		text += " "
	}
	text += e.advice
	if e.cause != nil {
		text += ": " + strings.ReplaceAll(e.cause.Error(), "\n", "; ")
	}
	return text
}

// Unwrap returns the sentinel and the errors behind it.
func (e *serverError) Unwrap() []error {
	errs := []error{e.sentinel}
	for _, err := range []error{e.cause, e.left} {
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// Unsent reports whether nothing was executed, so that the claim is not in doubt.
func (e *serverError) Unsent() bool { return e.unsent }

// unsentError is the error of a ctx that ended before anything was sent.
type unsentError struct{ error }

func (e unsentError) Unwrap() error { return e.error }

// Unsent is true.
func (unsentError) Unsent() bool { return true }

// verdict is what an error reply of the server means.
type verdict struct {
	begins   string // how the reply begins; "ERR " is left away
	sentinel error
	advice   string
	doubt    bool // part of it may have been executed
}

const permissions = "the Redis user lacks a permission: see the ACL line in the documentation of redisstore"

const silent = "no answer from the server"

const clustered = "the server belongs to a Cluster: use redis.NewClusterClient"

// turnedAway are the verdicts on what a server says before it hangs up.
var turnedAway = []verdict{
	{begins: "max number of clients", sentinel: picket.ErrUnavailable, advice: "the server takes no more connections: raise maxclients, or lower the clients' pool sizes"},
	{begins: "DENIED", sentinel: picket.ErrRefused, advice: "the server is in protected mode: set a password, or protected-mode no"},
}

// verdicts on the error replies that Redis and Valkey give. All of them say that the command, or the claim's part of the script, was not executed.
var verdicts = append([]verdict{
	{begins: "READONLY", sentinel: picket.ErrUnavailable, advice: "the server is a replica and takes no writes: connect to the master, or through Sentinel"},
	{begins: "LOADING", sentinel: picket.ErrUnavailable, advice: "the server is loading its data, try again"},
	{begins: "BUSY", sentinel: picket.ErrUnavailable, advice: "another script keeps the server busy: wait, or end it with SCRIPT KILL"},
	{begins: "NOREPLICAS", sentinel: picket.ErrUnavailable, advice: "the server has too few replicas for its min-replicas-to-write"},
	{begins: "MASTERDOWN", sentinel: picket.ErrUnavailable, advice: "the server is a replica without its master: wait for the failover"},
	{begins: "CLUSTERDOWN", sentinel: picket.ErrUnavailable, advice: "the cluster is down: wait, or look at CLUSTER INFO"},
	{begins: "TRYAGAIN", sentinel: picket.ErrUnavailable, advice: "the slot is being moved, try again"},
	{begins: "NOSCRIPT", sentinel: picket.ErrUnavailable, advice: "the server forgot the script at once: does something run SCRIPT FLUSH?"},
	{begins: "UNKILLABLE", sentinel: picket.ErrUnavailable, advice: "a script that has written keeps the server busy"},
	{begins: "Script killed", sentinel: picket.ErrUnavailable, advice: "the script was ended by SCRIPT KILL before it wrote"},
	{begins: "Script attempted to access a non local key", sentinel: picket.ErrUnavailable, advice: "the slot is being moved, try again", doubt: true},
	{begins: "Error running script", sentinel: picket.ErrUnavailable, advice: "the script was ended", doubt: true},

	{begins: "OOM", sentinel: picket.ErrRefused, advice: "the server is out of memory: raise maxmemory or free some; releases go on working"},
	{begins: "MISCONF", sentinel: picket.ErrRefused, advice: "the server cannot save its data and stopped taking writes: look at its disk and log"},
	// Redis cuts off whoever sends more than ten arguments without having logged in, before it looks at the command.
	{begins: "Protocol error: unauthenticated", sentinel: picket.ErrRefused, advice: "the server wants a password: set Username and Password of the client"},
	{begins: "NOAUTH", sentinel: picket.ErrRefused, advice: "the server wants a password: set Username and Password of the client"},
	{begins: "WRONGPASS", sentinel: picket.ErrRefused, advice: "the user name or password is wrong: check Username and Password of the client"},
	{begins: "invalid password", sentinel: picket.ErrRefused, advice: "the password is wrong: check Password of the client"},
	{begins: "Client sent AUTH", sentinel: picket.ErrRefused, advice: "the server has no password, but the client sends one"},
	{begins: "AUTH ", sentinel: picket.ErrRefused, advice: "the server has no password, but the client sends one"},
	{begins: "NOPERM", sentinel: picket.ErrRefused, advice: permissions},
	{begins: "The user executing the script can't", sentinel: picket.ErrRefused, advice: permissions},
	{begins: "ACL failure in script", sentinel: picket.ErrRefused, advice: permissions},
	{begins: "unknown command", sentinel: picket.ErrRefused, advice: "the server lacks a command: Redis 7.0 or Valkey 7.2 is needed, WithAOF needs Redis 7.2"},
	{begins: "Unknown Redis command called from", sentinel: picket.ErrRefused, advice: "the server lacks a command: Redis 7.0 or Valkey 7.2 is needed"},
	{begins: "NOPROTO", sentinel: picket.ErrRefused, advice: "the server does not speak the client's protocol: Redis 7.0 or Valkey 7.2 is needed"},
	{begins: "DB index is out of range", sentinel: picket.ErrRefused, advice: "the server has no database of that number: check DB of the client"},
	{begins: "This instance has cluster support disabled", sentinel: picket.ErrRefused, advice: "the server belongs to no Cluster: use redis.NewClient"},
	{begins: "SELECT is not allowed in cluster mode", sentinel: picket.ErrUnsupported, advice: clustered},
	{begins: "MOVED", sentinel: picket.ErrUnsupported, advice: clustered},
	{begins: "ASK", sentinel: picket.ErrUnsupported, advice: clustered},
	{begins: "CROSSSLOT", sentinel: picket.ErrUnsupported, advice: clustered},
}, turnedAway...)

// sentinelVerdicts come first for what Sentinels answer, which have users of their own.
var sentinelVerdicts = []verdict{
	{begins: "Protocol error: unauthenticated", sentinel: picket.ErrRefused, advice: "Sentinel wants a password: set SentinelUsername and SentinelPassword of the client"},
	{begins: "NOAUTH", sentinel: picket.ErrRefused, advice: "Sentinel wants a password: set SentinelUsername and SentinelPassword of the client"},
	{begins: "WRONGPASS", sentinel: picket.ErrRefused, advice: "the user name or password for Sentinel is wrong: check SentinelUsername and SentinelPassword of the client"},
	{begins: "invalid password", sentinel: picket.ErrRefused, advice: "the password for Sentinel is wrong: check SentinelPassword of the client"},
	{begins: "unknown command", sentinel: picket.ErrRefused, advice: "a server answers that is no Sentinel: check SentinelAddrs of the client"},
	{begins: "NOPERM", sentinel: picket.ErrRefused, advice: "Sentinel's user lacks a permission: it needs &* +@connection +subscribe +sentinel"},
}

// noSentinel is how go-redis begins when no Sentinel named the master.
const noSentinel = "redis: all sentinels specified in configuration are unreachable"

// refusal is the error for an error reply; key is the Redis key that it is about, if that is known.
func refusal(about subject, text, key string, left error) error {
	e := &serverError{subject: about, cause: errors.New(text), left: left, unsent: true}
	plain := strings.TrimPrefix(text, "ERR ")
	word, rest, _ := strings.Cut(plain, " ")
	switch word {
	case "WRONGTYPE", "FOREIGN":
		if key == "" {
			key = rest
		}
		if key == "" || word == "WRONGTYPE" && key == rest {
			key = "one of its keys"
		} else {
			key = fmt.Sprintf("the Redis key %q", key)
		}
		e.sentinel, e.advice = picket.ErrRefused, key+" holds something that is not a lock's: delete it, or use another prefix"
		if word == "FOREIGN" {
			e.cause = nil
		}
		return e
	case "EXHAUSTED":
		e.sentinel, e.cause = picket.ErrRefused, nil
		e.advice = fmt.Sprintf("the last token, in the Redis key %q, leaves no room for another below 2^53: lower the mark at the resource, then delete that key", rest)
		return e
	}
	if !e.judge(verdicts) {
		e.sentinel, e.advice, e.unsent = picket.ErrUnavailable, "the server answered with an error", false
	}
	return e
}

// judge reports whether one of all knows the reply.
func (e *serverError) judge(all []verdict) bool {
	plain := strings.TrimPrefix(e.cause.Error(), "ERR ")
	i := slices.IndexFunc(all, func(v verdict) bool { return strings.HasPrefix(plain, v.begins) })
	if i >= 0 {
		e.sentinel, e.advice, e.unsent = all[i].sentinel, all[i].advice, !all[i].doubt
	}
	return i >= 0
}

// failed is the error for what go-redis returned instead of an answer.
func (s *Store) failed(ctx context.Context, about subject, err error) error {
	if known, ok := errors.AsType[*serverError](err); ok {
		if known.op == "" && known != errClosed { //nolint:errorlint // that one is the same for all
			named := *known
			named.subject = about
			return &named
		}
		return err
	}
	if _, ok := errors.AsType[unsentError](err); ok {
		return err
	}
	if _, ok := errors.AsType[*redirect](err); ok {
		return err
	}
	if unrouted, ok := errors.AsType[unroutedError](err); ok {
		err = s.failed(ctx, about, unrouted.error)
		if failure, ok := errors.AsType[*serverError](err); ok {
			if failure.advice == silent {
				failure.advice = "no answer from the Cluster"
			}
			failure.unsent = true
		}
		return err
	}
	if _, ok := errors.AsType[*ReplicasError](err); ok {
		return err
	}
	left := ctx.Err()
	if d, ok := ctx.Deadline(); left == nil && ok && !time.Now().Before(d) {
		left = context.DeadlineExceeded // the socket's deadline was ctx's, and came a moment earlier
	}
	if strings.HasPrefix(err.Error(), noSentinel) {
		return masterless(about, err, left)
	}
	if reply, ok := errors.AsType[redis.Error](err); ok && reply != redis.Nil {
		return refusal(about, reply.Error(), "", left)
	}
	e := &serverError{subject: about, sentinel: picket.ErrUnavailable, advice: silent, cause: err, left: left, unsent: neverSent(err)}
	if e.unsent {
		e.advice = "no connection to the server"
	}
	if advice := handshake(err); advice != "" {
		e.advice, e.unsent = advice, true
	}
	if errors.Is(err, redis.ErrClosed) {
		e.sentinel, e.advice = picket.ErrRefused, "the client was closed"
	}
	return e
}

// masterless is the error when no Sentinel named the master. One that refuses counts for all: they are set up alike, and those that are silent now may be so for long.
func masterless(about subject, err, left error) error {
	e := &serverError{subject: about, sentinel: picket.ErrUnavailable, advice: "no connection to a Sentinel", cause: err, left: left, unsent: true}
	if advice := handshake(err); advice != "" {
		e.advice = advice
	}
	reply, ok := errors.AsType[redis.Error](err)
	switch {
	case !ok:
		return e
	case reply == redis.Nil:
		e.advice = "Sentinel knows no master of that name: check MasterName of the client"
		return e
	}
	e.cause = errors.New(reply.Error())
	if !e.judge(sentinelVerdicts) && !e.judge(verdicts) {
		e.advice = "Sentinel answered with an error"
	}
	e.unsent = true // to the server
	return e
}

// idleError is the error of a call that got no connection before its ctx ended.
type idleError struct{ error }

func (e idleError) Unwrap() error { return e.error }

// begun marks an error of go-redis' that says that it only waited for a connection: then it is the bare one of the ctx. A hook may return that at any time.
func (n *node) begun(err error) error {
	if n.client != n.shared && (err == context.DeadlineExceeded || err == context.Canceled) { //nolint:errorlint // not one that wraps it
		return idleError{err}
	}
	return err
}

// neverSent reports whether go-redis failed before it had a connection.
func neverSent(err error) bool {
	if _, ok := errors.AsType[idleError](err); ok {
		return true
	}
	if errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrPoolExhausted) || errors.Is(err, redis.ErrClosed) {
		return true
	}
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}
