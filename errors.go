package picket

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

var (
	ErrBusy        = errors.New("picket: key is busy")            // somebody else holds it, waits for it, or it cools down; *BusyError has the facts
	ErrLost        = errors.New("picket: lease is lost")          // over, or about to be, and we did not release it; *LostError has the reason
	ErrReleased    = errors.New("picket: lease is released")      // we released it ourselves
	ErrUnavailable = errors.New("picket: store is unavailable")   // no answer, or an answer that says try later (LOADING, CLUSTERDOWN, READONLY after failover)
	ErrRefused     = errors.New("picket: store refused")          // an answer that a retry does not cure (foreign key type, NOAUTH, NOPERM, OOM)
	ErrUncertain   = errors.New("picket: outcome unknown")        // the request may or may not have taken effect
	ErrInvalid     = errors.New("picket: invalid argument")       // key, TTL, option; nothing was sent
	ErrClosed      = errors.New("picket: locker is shut down")    // after Shutdown
	ErrUnsupported = errors.New("picket: not supported by store") // an optional interface or a Claim field that the store lacks
)

// BusyError tells whom we waited for. Its message is one line: key, holder, since, remaining. It unwraps to the ctx error and its cause if ctx ended the wait.
type BusyError struct {
	Key       string
	Holder    Holder        // zero if nobody holds it and others wait; without ID if its MinHold outlasts its release
	Remaining time.Duration // until the holder's record ends if it is not renewed; NoExpiry if no clock ends it
	Waiters   int           // known waiters before us, -1 if the store cannot tell
	cause     []error
}

func (e *BusyError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "picket: key %q is busy: ", e.Key)
	kept := e.Holder.ID == "" && e.Remaining != NoExpiry // MinHold: a record without a claim
	switch h := e.Holder.String(); {
	case h == "":
		b.WriteString("nobody holds it yet")
	case kept:
		b.WriteString("last held by " + h)
	default:
		b.WriteString("held by " + h)
	}
	switch {
	case e.Remaining == NoExpiry:
		b.WriteString(", until its processes end")
	case e.Remaining > 0:
		fmt.Fprintf(&b, ", for %s more", e.Remaining.Round(time.Millisecond))
		if !kept {
			b.WriteString(" unless renewed")
		}
	}
	if e.Waiters > 0 {
		fmt.Fprintf(&b, ", %d waiting", e.Waiters)
	}
	for i, c := range e.cause {
		if i == 0 {
			b.WriteString(": ")
		} else {
			b.WriteString(", ")
		}
		b.WriteString(oneLine(c.Error()))
	}
	return b.String()
}

// Is reports whether target is ErrBusy.
func (e *BusyError) Is(target error) bool { return target == ErrBusy }

// Unwrap returns the ctx error and its cause if ctx ended the wait.
func (e *BusyError) Unwrap() []error { return e.cause }

// LostError says which lease ended and why.
type LostError struct {
	Key    string
	Token  int64
	Reason Reason    // a store that cannot tell leaves it empty
	At     time.Time // when we knew
}

func (e *LostError) Error() string {
	reason := string(e.Reason)
	if reason == "" {
		reason = "no record of this claim"
	}
	if e.Token == 0 {
		return fmt.Sprintf("picket: lease on %q is lost: %s", e.Key, reason)
	}
	return fmt.Sprintf("picket: lease on %q with token %d is lost: %s", e.Key, e.Token, reason)
}

// Is reports whether target is ErrLost.
func (e *LostError) Is(target error) bool { return target == ErrLost }

// Reason is a word that is the same in logs, metrics and exit messages.
type Reason string

const (
	ReasonExpired     Reason = "expired"     // our clock says so, or the store has no record any more
	ReasonUnreachable Reason = "unreachable" // renewals went unanswered
	ReasonDeleted     Reason = "deleted"     // the record vanished before its time
	ReasonStolen      Reason = "stolen"      // another claim's record is in its place
	ReasonBroken      Reason = "broken"      // by an operator
	ReasonMaxHold     Reason = "max-hold"
	ReasonFailover    Reason = "failover" // the store says it is not the one that granted
)

// lineError is several errors with one line of text, which errors.Join cannot do.
type lineError struct {
	text string
	errs []error
}

func (e *lineError) Error() string   { return e.text }
func (e *lineError) Unwrap() []error { return e.errs }

// explain joins the errors that are not nil behind one line of text; what each says beyond that follows it.
func explain(text string, sentinel error, more ...error) error {
	e := &lineError{text: text, errs: []error{sentinel}}
	for _, err := range more {
		if err == nil {
			continue
		}
		e.errs = append(e.errs, err)
		t := strings.TrimPrefix(oneLine(err.Error()), sentinel.Error()+": ")
		if !strings.Contains(e.text, t) {
			e.text += ": " + t
		}
	}
	return e
}

func invalid(format string, args ...any) error {
	return explain("picket: invalid argument: "+fmt.Sprintf(format, args...), ErrInvalid)
}

func quote(s string) string { return strconv.Quote(s) }

// named is an answer of the store as users see it: on one line, with what was asked.
func named(op, key string, err error) error {
	return &lineError{"picket: " + op + " " + quote(key) + ": " + strings.TrimPrefix(oneLine(err.Error()), "picket: "), []error{err}}
}

// failed is the error of a request that leaves nothing to undo: what the store answered, or that it did not.
func failed(ctx context.Context, op, key string, err error) error {
	if definite(err) {
		return named(op, key, err)
	}
	return silence(ctx, "picket: "+op+" "+quote(key)+": store is unavailable", ErrUnavailable, err)
}

// silence is the error of a request that got no answer: the last attempt ended with err, which may be nil.
func silence(ctx context.Context, text string, sentinel, err error) error {
	if outOfTime(err) {
		err = nil // our own bound; the caller's ctx speaks for itself
	}
	return explain(text, sentinel, append([]error{err}, ctxErrors(ctx)...)...)
}

// ended is the error of work that ctx ended before the store was asked.
func ended(ctx context.Context, text string) error {
	errs := ctxErrors(ctx)
	return explain(text+": "+oneLine(errs[0].Error()), errs[0], errs[1:]...)
}

// ctxErrors returns nothing while ctx goes on, else its error and its cause if that is another.
func ctxErrors(ctx context.Context) []error {
	err := ctx.Err()
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		return []error{err, cause}
	}
	return []error{err}
}

// definite reports whether err is an answer that asking again does not change.
func definite(err error) bool {
	return errors.Is(err, ErrRefused) || errors.Is(err, ErrUnsupported) || errors.Is(err, ErrInvalid)
}

// outOfTime reports whether err only says that an attempt was given up.
func outOfTime(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

func oneLine(s string) string {
	return strings.NewReplacer("\r\n", "; ", "\n", "; ", "\r", "; ").Replace(s)
}

// unsent reports whether err says that nothing left this process.
func unsent(err error) bool {
	u, ok := errors.AsType[interface {
		error
		Unsent() bool
	}](err)
	return ok && u.Unsent()
}
