package fence_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/picket-go/picket/fence"
)

// fixed is a lease that says what it is told to say.
type fixed struct {
	key   string
	token int64
	err   error
}

func (l fixed) Key() string  { return l.key }
func (l fixed) Token() int64 { return l.token }
func (l fixed) Check() error { return l.err }

func TestStaleTokenErrorIsErrStaleAndNamesTheNumbers(t *testing.T) {
	t.Parallel()
	err := fmt.Errorf("write: %w", &fence.StaleTokenError{Resource: "row 7", Have: 33, Seen: 34})
	if !errors.Is(err, fence.ErrStale) {
		t.Error("errors.Is(err, ErrStale) is false")
	}
	if errors.Is(err, fence.ErrNoToken) {
		t.Error("a stale token is not a missing one")
	}
	for _, want := range []string{`"row 7"`, "33", "34"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not name %s", err, want)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("%q is more than one line", err)
	}
}

func TestFromContextReturnsTheLeaseOfTheResourceAskedFor(t *testing.T) {
	t.Parallel()
	ctx := fence.NewContext(t.Context(), "orders", fixed{key: "a", token: 1})
	ctx = fence.NewContext(ctx, "stock", fixed{key: "b", token: 2})
	for resource, want := range map[string]int64{"orders": 1, "stock": 2} {
		l, err := fence.FromContext(ctx, resource)
		if err != nil {
			t.Fatalf("FromContext(%q): %v", resource, err)
		}
		if l.Token() != want {
			t.Errorf("token of %q is %d, want %d", resource, l.Token(), want)
		}
	}
}

func TestFromContextPrefersTheInnermostLease(t *testing.T) {
	t.Parallel()
	outer := fence.NewContext(t.Context(), "orders", fixed{token: 1})
	inner := fence.NewContext(outer, "orders", fixed{token: 2})
	for want, ctx := range map[int64]context.Context{1: outer, 2: inner} {
		if l, err := fence.FromContext(ctx, "orders"); err != nil || l.Token() != want {
			t.Errorf("got %v, %v, want token %d", l, err, want)
		}
	}
}

func TestFromContextReturnsALeaseThatIsOver(t *testing.T) {
	t.Parallel()
	over := errors.New("over")
	l, err := fence.FromContext(fence.NewContext(t.Context(), "orders", fixed{err: over}), "orders")
	if err != nil {
		t.Fatal(err)
	}
	if !errors.Is(l.Check(), over) {
		t.Errorf("Check is %v, want the lease's own answer", l.Check())
	}
}

func TestFromContextWithoutLeaseIsErrNoTokenAndNamesTheResource(t *testing.T) {
	t.Parallel()
	bound := fence.NewContext(t.Context(), "orders", fixed{token: 1})
	for name, ctx := range map[string]context.Context{
		"nothing bound":       t.Context(),
		"another one bound":   fence.NewContext(t.Context(), "stock", fixed{token: 1}),
		"a nil lease hides":   fence.NewContext(bound, "orders", nil),
		"same text, own type": context.WithValue(t.Context(), textKey("orders"), fixed{token: 1}),
	} {
		l, err := fence.FromContext(ctx, "orders")
		if !errors.Is(err, fence.ErrNoToken) || l != nil {
			t.Errorf("%s: got %v, %v, want ErrNoToken", name, l, err)
			continue
		}
		if !strings.Contains(err.Error(), `"orders"`) {
			t.Errorf("%s: %q does not name the resource", name, err)
		}
	}
}

type textKey string
