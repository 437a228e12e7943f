package picket_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/picket-go/picket"
)

var sentinels = []error{
	picket.ErrBusy, picket.ErrLost, picket.ErrReleased, picket.ErrUnavailable, picket.ErrRefused,
	picket.ErrUncertain, picket.ErrInvalid, picket.ErrClosed, picket.ErrUnsupported,
}

func TestEachErrorIsItsSentinelAndNoOther(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want error
	}{
		{&picket.BusyError{Key: "k"}, picket.ErrBusy},
		{&picket.LostError{Key: "k"}, picket.ErrLost},
	} {
		for _, s := range sentinels {
			if got := errors.Is(c.err, s); got != (s == c.want) { //nolint:errorlint // the sentinels themselves
				t.Errorf("errors.Is(%T, %v) is %v", c.err, s, got)
			}
		}
	}
	for i, a := range sentinels {
		for j, b := range sentinels {
			if errors.Is(a, b) != (i == j) {
				t.Errorf("%v and %v", a, b)
			}
		}
		if !strings.HasPrefix(a.Error(), "picket: ") || strings.Contains(a.Error(), "\n") {
			t.Errorf("message %q", a)
		}
	}
}

func TestABusyErrorIsOneLineWithHolderSinceAndRemaining(t *testing.T) {
	t.Parallel()
	since := time.Date(2026, 3, 1, 12, 30, 0, 5e6, time.FixedZone("CET", 3600))
	for _, c := range []struct {
		err  *picket.BusyError
		want string
	}{
		{
			&picket.BusyError{Key: "nightly", Holder: picket.Holder{ID: "secret", Host: "db1", PID: 42, Label: "backup", Since: since}, Remaining: 12345678 * time.Microsecond, Waiters: 2},
			`picket: key "nightly" is busy: held by db1 pid 42 (backup) since 2026-03-01T11:30:00.005Z, for 12.346s more unless renewed, 2 waiting`,
		},
		{&picket.BusyError{Key: "k"}, `picket: key "k" is busy: nobody holds it yet`},
		{&picket.BusyError{Key: "k", Waiters: 1}, `picket: key "k" is busy: nobody holds it yet, 1 waiting`},
		{&picket.BusyError{Key: "k", Waiters: -1, Holder: picket.Holder{ID: "secret"}}, `picket: key "k" is busy: held by another claim`},
		{&picket.BusyError{Key: "k", Holder: picket.Holder{PID: 1}, Remaining: picket.NoExpiry}, `picket: key "k" is busy: held by pid 1, until its processes end`},
		{
			&picket.BusyError{Key: "a\n\x1b[2J", Holder: picket.Holder{Host: "evil\r\n", Label: "\x1b]0;pwned\x07\u202e"}},
			`picket: key "a\n\x1b[2J" is busy: last held by evil\r\n (\x1b]0;pwned\a\u202e)`,
		},
	} {
		if got := c.err.Error(); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}

func TestALostErrorSaysWhichLeaseAndWhy(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  *picket.LostError
		want string
	}{
		{&picket.LostError{Key: "k", Token: 7, Reason: picket.ReasonStolen}, `picket: lease on "k" with token 7 is lost: stolen`},
		{&picket.LostError{Key: "k", Token: 7}, `picket: lease on "k" with token 7 is lost: no record of this claim`},
		{&picket.LostError{Key: "a\nb", Reason: picket.ReasonMaxHold}, `picket: lease on "a\nb" is lost: max-hold`},
	} {
		if got := c.err.Error(); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}

// An error of a store may have several lines, as errors.Join makes them; ours have one.
func TestErrorsStayOnOneLineWhateverTheStoreSays(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		several := errors.Join(errors.New("node 1: refused"), errors.New("node 2: timeout"))
		store := onMemory()
		var fail bool
		store.acquire = func(ctx context.Context, c picket.Claim) (picket.Grant, error) {
			if fail {
				return picket.Grant{}, several
			}
			return store.Store.Acquire(ctx, c)
		}
		store.renew = func(_ context.Context, _ []picket.Claim, report func(int, error)) { report(0, several) }
		store.release = func(context.Context, picket.Claim) error { return several }
		l := picket.New(store, picket.WithoutRenewal())
		le := acquire(t, l, "held")
		fail = true
		_, tried := l.TryAcquire(t.Context(), "k")
		for what, err := range map[string]error{"TryAcquire": tried, "Renew": le.Renew(t.Context(), 0), "Release": le.Release(t.Context())} {
			if err == nil || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "node 1: refused; node 2: timeout") {
				t.Errorf("%s: %q", what, err)
			}
			wantIs(t, err, several)
		}
		time.Sleep(time.Minute) // the undo gives up as well
		wantIdle(t, l)
	})
}
