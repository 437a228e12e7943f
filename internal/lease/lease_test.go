package lease_test

import (
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/picket-go/picket/internal/lease"
)

var update = flag.Bool("update", false, "write the answers into testdata; read the difference before you keep it")

// TestTables computes the right side of each "inputs => answer" in testdata. GL-28, GL-30.
func TestTables(t *testing.T) {
	t.Parallel()
	tables := map[string]func(row) string{
		"margins.txt": margins,
		"window.txt":  window,
		"ask.txt":     ask,
		"retry.txt":   retry,
		"check.txt":   check,
	}
	for name, answer := range tables {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runTable(t, filepath.Join("testdata", name), answer)
		})
	}
}

func margins(r row) string {
	terms := r.terms()
	ttl, m := terms.TTL, terms.Margins
	return fmt.Sprintf("drift=%s grace=%s ends=%s renew=%s", m.Drift(ttl), m.GraceOf(ttl), terms.Window(0, ttl).End, terms.RenewAt(0, terms.Window(0, ttl)))
}

func window(r row) string {
	terms, t0 := r.terms(), r.duration("t0", 0)
	w := terms.Window(t0, r.duration("given", terms.TTL))
	return fmt.Sprintf("deadline=%s end=%s renew=%s", instant(w.Deadline), instant(w.End), instant(terms.RenewAt(t0, w)))
}

func ask(r row) string { return "ask=" + r.terms().AskTTL(r.duration("now", 0)).String() }

func retry(r row) string {
	var after []string
	for n := range 8 {
		after = append(after, r.terms().RetryAfter(n+1).String())
	}
	return "after=" + strings.Join(after, ",")
}

func check(r row) string {
	terms := r.terms()
	if err := terms.Margins.Check(terms.TTL); err != nil {
		return err.Error()
	}
	return "ok"
}

func instant(t lease.Instant) string {
	if t == lease.Forever {
		return "never"
	}
	return t.String()
}

// row is the left side of a line.
type row struct {
	t      *testing.T
	fields map[string]string
}

func (r row) duration(name string, missing time.Duration) time.Duration {
	r.t.Helper()
	text, ok := r.fields[name]
	if !ok {
		return missing
	}
	if text == "forever" {
		return lease.Forever
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		r.t.Fatal(err)
	}
	return d
}

func (r row) terms() lease.Terms {
	r.t.Helper()
	m := lease.Default()
	if _, ok := r.fields["grace"]; ok {
		m.Grace, m.GraceSet = r.duration("grace", 0), true
	}
	if drift, ok := r.fields["drift"]; ok {
		cut := strings.LastIndex(drift, "+")
		ratio, err := strconv.ParseFloat(drift[:cut], 64)
		if err != nil {
			r.t.Fatal(err)
		}
		fixed, err := time.ParseDuration(drift[cut+1:])
		if err != nil {
			r.t.Fatal(err)
		}
		m.DriftRatio, m.DriftFixed = ratio, fixed
	}
	return lease.Terms{Margins: m, TTL: r.duration("ttl", 0), Limit: r.duration("limit", lease.Forever)}
}

func runTable(t *testing.T, path string, answer func(row) string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.ReplaceAll(string(text), "\r\n", "\n"), "\n")
	for i, line := range lines {
		left, want, ok := strings.Cut(line, "=>")
		if !ok || strings.HasPrefix(line, "#") {
			continue
		}
		r := row{t, map[string]string{}}
		for _, field := range strings.Fields(left) {
			name, value, _ := strings.Cut(field, "=")
			r.fields[name] = value
		}
		got := answer(r)
		if !*update && got != strings.TrimSpace(want) {
			t.Errorf("%s:%d: %s\n got %s\nwant %s", path, i+1, strings.TrimSpace(left), got, strings.TrimSpace(want))
		}
		lines[i] = strings.TrimSpace(left) + " => " + got
	}
	if *update {
		if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// FuzzTerms looks for a holder that believes in more than the store gave it, and for numbers that wrap around. GL-28, GL-30.
func FuzzTerms(f *testing.F) {
	f.Add(int64(0), int64(30*time.Second), int64(30*time.Second), int64(0), 0.01, int64(2*time.Millisecond), int64(0), false)
	f.Add(int64(math.MaxInt64-5), int64(24*time.Hour), int64(math.MaxInt64), int64(math.MaxInt64), 0.0, int64(0), int64(0), true)
	f.Add(int64(time.Hour), int64(100*time.Millisecond), int64(1), int64(100*time.Millisecond), 0.4, int64(0), int64(10*time.Millisecond), true)
	f.Add(int64(1), int64(time.Second), int64(time.Second), int64(math.MaxInt64-1), 0.99, int64(math.MaxInt64), int64(math.MaxInt64), true)
	f.Fuzz(func(t *testing.T, at, ttl, given, hold int64, ratio float64, fixed, grace int64, graceSet bool) {
		t0, gave := lease.Instant(at&math.MaxInt64), time.Duration(given)
		terms := lease.Terms{
			Margins: lease.Margins{DriftRatio: ratio, DriftFixed: time.Duration(fixed), Grace: time.Duration(grace), GraceSet: graceSet},
			TTL:     time.Duration(ttl),
			Limit:   lease.Forever,
		}
		if d := time.Duration(hold); d >= lease.MinTTL && d <= lease.Forever-t0 {
			terms.Limit, terms.TTL = t0+d, min(terms.TTL, d)
		}
		if terms.TTL < lease.MinTTL || terms.TTL > lease.MaxTTL || gave <= 0 || terms.Margins.Check(terms.TTL) != nil {
			t.Skip()
		}
		checkTerms(t, terms, t0, terms.TTL)
		checkTerms(t, terms, t0, gave)
		if w := terms.Window(t0, terms.TTL); w.End < t0 {
			t.Errorf("a full lease from %s is over at %s", t0, w.End)
		}
		for n := range 100 {
			if d := terms.RetryAfter(n + 1); d <= 0 || d > time.Second {
				t.Errorf("renewal %d is repeated after %s", n+1, d)
			}
		}
	})
}

func checkTerms(t *testing.T, terms lease.Terms, t0 lease.Instant, gave time.Duration) {
	t.Helper()
	w := terms.Window(t0, gave)
	if w.End > w.Deadline || w.Deadline > terms.Limit {
		t.Errorf("end %s, deadline %s, limit %s", w.End, w.Deadline, terms.Limit)
	}
	if gave <= lease.Forever-t0 && gave != lease.Forever && w.Deadline > t0+gave {
		t.Errorf("deadline %s is after %s, when the store's %s are over", w.Deadline, t0+gave, gave)
	}
	if at := terms.RenewAt(t0, w); at < t0 {
		t.Errorf("renewal at %s, before the request at %s", at, t0)
	}
	if d := terms.AskTTL(t0); d < lease.MinTTL || d > terms.TTL {
		t.Errorf("asks for %s of at most %s", d, terms.TTL)
	}
}

func BenchmarkWindow(b *testing.B) {
	terms := lease.Terms{Margins: lease.Default(), TTL: 30 * time.Second, Limit: lease.Forever}
	b.ReportAllocs()
	for b.Loop() {
		terms.Window(time.Hour, terms.TTL)
	}
}
