package picket

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Holder is who an operator looks for.
type Holder struct {
	ID    string // the claim's
	Host  string
	PID   int
	Since time.Time // milliseconds, the store's clock where it has one
	Label string
}

// String returns the holder as operators read it, without its claim id, which is a capability: whoever knows it can release. The zero Holder is "".
func (h Holder) String() string {
	var parts []string
	if h.Host != "" {
		parts = append(parts, printable(h.Host))
	}
	if h.PID != 0 {
		parts = append(parts, "pid "+strconv.Itoa(h.PID))
	}
	if h.Label != "" {
		parts = append(parts, "("+printable(h.Label)+")")
	}
	if !h.Since.IsZero() {
		parts = append(parts, "since "+h.Since.UTC().Format("2006-01-02T15:04:05.000Z07:00"))
	}
	if len(parts) == 0 && h.ID != "" {
		return "another claim"
	}
	return strings.Join(parts, " ")
}

// printable keeps a name that came from elsewhere from steering a terminal.
func printable(s string) string {
	q := strconv.Quote(s)
	return q[1 : len(q)-1]
}

// Who we are, for Holder: asked once, since an acquire asks for nothing else of the system.
var hostname = sync.OnceValue(func() string {
	h, _ := os.Hostname() // an operator can do without
	return h
})

var pid = os.Getpid()
