package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/picket-go/picket/lab/internal/measure"
	"github.com/picket-go/picket/lab/internal/report"
	"github.com/picket-go/picket/lab/internal/result"
	"github.com/picket-go/picket/lab/internal/server"
)

// The test binary stands in for the program, which runs itself as a bystander.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == measure.ProbeArgument {
		os.Exit(execute(context.Background(), os.Args[1:], streams{os.Stdout, os.Stderr}))
	}
	os.Exit(m.Run())
}

// needServer ends a test that cannot run here. CI must have everything, so there it is a failure.
func needServer(t *testing.T) {
	t.Helper()
	for _, program := range [][]string{{"redis-server", "valkey-server"}, {"redis-benchmark", "valkey-benchmark"}} {
		_, err := server.Find(program...)
		if err != nil && os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		if err != nil {
			t.Skip(err)
		}
	}
}

// tiny is as short as a plan can be that still goes through everything.
func tiny() measure.Plan {
	return measure.Plan{
		Rounds: 1, Bound: 2 * time.Second, Drain: 200 * time.Millisecond,
		Pairs: 50 * time.Millisecond, Bystander: 50 * time.Millisecond, LimitCalls: 1_000,
		Handoff: 100 * time.Millisecond, Idle: 100 * time.Millisecond, Told: 2,
		Leases: 300, TTL: 500 * time.Millisecond, Alone: 100 * time.Millisecond,
	}
}

func TestEveryRivalGoesThroughEveryBenchmark(t *testing.T) {
	needServer(t)
	t.Setenv("GORACE", "atexit_sleep_ms=10") // else each bystander, a race-enabled binary too, ends a second late
	var stdout, stderr strings.Builder
	out := streams{&stdout, &stderr}
	s, err := parse([]string{"all", "-quick", "-json"}, out)
	if err != nil {
		t.Fatal(err, stderr.String())
	}
	s.plan = tiny()
	if err := s.run(t.Context(), out); err != nil {
		t.Fatal(err)
	}
	if stderr.Len() > 0 {
		t.Errorf("it is no terminal, but there stands %q", stderr.String())
	}
	r, err := result.Read(strings.NewReader(stdout.String()))
	if err != nil {
		t.Fatal(err)
	}
	libraries := []string{"picket", "redislock", "redsync", "rueidislock"}
	for _, want := range []struct {
		load   result.Case
		metric string
		impls  []string
	}{
		{result.PairsBy(256), measure.PairsPerSecond, append(libraries, "raw", "limit")},
		{result.PairsBy(16), measure.PairsPerSecond, append(libraries, "raw")},
		{result.PairsBy(1), measure.PairsPerSecond, append(libraries, "raw")},
		{result.ClusterBy(256), measure.PairsPerSecond, append(libraries, "raw")},
		{result.ClusterBy(16), measure.PairsPerSecond, append(libraries, "raw")},
		{result.PairsBy(256), measure.GetP99, append(libraries, "raw", "nobody")},
		{result.HandoffOf(32, 1), measure.WaitP99, libraries},
		{result.HandoffOf(32, 0), measure.Jain, libraries},
		{result.HeldFor(1), measure.ToldRoundTrips, libraries},
		{result.HeldFor(64), measure.CommandsPerWaiterAndTime, []string{"redislock"}}, // the others may be silent for so short a time
		{result.RenewOf(300), measure.BesideRatio, []string{"picket"}},
	} {
		for _, impl := range want.impls {
			m, ok := r.Get(want.load.By(impl).Of(want.metric))
			if !ok || m.Median <= 0 || m.Min > m.Median || m.Max < m.Median {
				t.Errorf("%s of %s under %+v: %+v", want.metric, impl, want.load, m)
			}
		}
	}
	for _, impl := range append(libraries, "raw", "limit", result.Machine) {
		if r.Settings(impl) == "" {
			t.Errorf("the settings of %s are not told", impl)
		}
	}
	for _, load := range []result.Case{result.HandoffOf(32, 1), result.HandoffOf(32, 0)} {
		for _, impl := range libraries {
			if m, _ := r.Get(load.By(impl).Of(measure.Overlaps)); m.Max > 0 {
				t.Errorf("%s let %v workers in together under %+v", impl, m.Max, load)
			}
		}
	}
}

func TestInterruptEndsTheRunAndLeavesNothing(t *testing.T) {
	needServer(t)
	for bench, after := range map[string]time.Duration{result.Pairs: 500 * time.Millisecond, result.Cluster: 3 * time.Second} {
		t.Run(bench, func(t *testing.T) {
			temp := t.TempDir()
			t.Setenv("TMPDIR", temp) // where the servers would write
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			time.AfterFunc(after, interrupt)
			var stdout, stderr strings.Builder
			if code := execute(ctx, []string{bench, "-rivals=raw"}, streams{&stdout, &stderr}); code != exitInterrupted {
				t.Errorf("exit code %d, want %d", code, exitInterrupted)
			}
			if stderr.String() != "bench: interrupted\n" || stdout.Len() > 0 {
				t.Errorf("it printed %q and %q", stdout.String(), stderr.String())
			}
			if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
				t.Errorf("%v is left, %v", left, err)
			}
		})
	}
}

func TestBudgetEndsTheRunWithWhatThereIs(t *testing.T) {
	needServer(t)
	var stdout, stderr strings.Builder
	out := streams{&stdout, &stderr}
	s, err := parse([]string{"pairs", "-quick", "-rivals=raw"}, out)
	if err != nil {
		t.Fatal(err)
	}
	s.plan.Budget = s.plan.Pairs * 2
	if err := s.run(t.Context(), out); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(stdout.String(), "256 callers") || !strings.Contains(stderr.String(), "something is missing") {
		t.Errorf("it printed %q and %q", stdout.String(), stderr.String())
	}
}

func TestMissingServerIsSaidWithTheLineThatInstallsIt(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	var stdout, stderr strings.Builder
	code := execute(t.Context(), nil, streams{&stdout, &stderr})
	if code != exitFailure || !strings.Contains(stderr.String(), "apt-get install -y redis-server") {
		t.Errorf("exit code %d, %q", code, stderr.String())
	}
}

func TestMistakesOnTheCommandLineAreExplained(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"speed"}, `there is no benchmark "speed": there are pairs, handoff, renew, cluster, all`},
		{[]string{"pairs", "renew"}, "name one of"},
		{[]string{"-rivals=picket,etcd"}, `no rival is called "etcd": there are picket, redislock, redsync, rueidislock, raw, limit`},
		{[]string{"pairs", "-rounds=-1"}, "-rounds -1 is negative"},
		{[]string{"pairs", "-fast"}, "flag provided but not defined: -fast"},
	} {
		var stdout, stderr strings.Builder
		if code := execute(t.Context(), c.args, streams{&stdout, &stderr}); code != exitUsage || !strings.Contains(stderr.String(), c.want) {
			t.Errorf("%q: exit code %d, %q, want %q", c.args, code, stderr.String(), c.want)
		}
	}
}

func TestFlagsMayStandBeforeAndAfterTheBenchmark(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"-quick", "pairs", "-rounds", "7"}, {"pairs", "-quick", "-rounds=7"}} {
		s, err := parse(args, streams{nil, os.Stderr})
		if err != nil || !s.quick || s.plan.Rounds != 7 || len(s.benches) != 1 {
			t.Errorf("%q: %+v, %v", args, s, err)
		}
	}
}

func TestFilesFollowFromTheJSON(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	const numbers = `{"bench":"pairs","impl":"picket","callers":256,"metric":"pairs_per_s","median":120000,"min":1,"max":2,"rounds":5}`
	for name, text := range map[string]string{"results.json": numbers, "README.md": "# Title\n" + report.Begin + "old\n" + report.End + "\nrest\n"} {
		if err := os.WriteFile(path(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var stdout, stderr strings.Builder
	code := execute(t.Context(), []string{"-from", path("results.json"), "-svg", path("bench.svg"), "-readme", path("README.md")}, streams{&stdout, &stderr})
	if code != 0 || stdout.Len()+stderr.Len() > 0 {
		t.Fatalf("exit code %d, %q, %q", code, stdout.String(), stderr.String())
	}
	readme, err := os.ReadFile(path("README.md"))
	if err != nil || !strings.Contains(string(readme), "120,000") || strings.Contains(string(readme), "old") || !strings.HasSuffix(string(readme), "\nrest\n") {
		t.Errorf("README.md is %q, %v", readme, err)
	}
	if svg, err := os.ReadFile(path("bench.svg")); err != nil || !strings.Contains(string(svg), "<svg") {
		t.Errorf("bench.svg is %.100q, %v", svg, err)
	}
}

// What the README and the picture say is what was measured.
func TestReadmeAndPictureFollowFromTheCommittedJSON(t *testing.T) {
	t.Parallel()
	const top = "../.."
	readme, err := os.ReadFile(filepath.Join(top, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(readme), report.Begin) {
		t.Skip("README.md shows no numbers")
	}
	const again = "run go run ./lab/bench -from docs/bench.json -svg docs/bench.svg -readme README.md"
	numbers, err := os.Open(filepath.Join(top, "docs", "bench.json"))
	if err != nil {
		t.Fatal("README.md shows numbers, but: ", err)
	}
	defer numbers.Close()
	r, err := result.Read(numbers)
	if err != nil {
		t.Fatal(err)
	}
	if want, err := report.Readme(string(readme), r); err != nil || string(readme) != want {
		t.Errorf("README.md is not what docs/bench.json makes of it: %s (%v)", again, err)
	}
	picture, err := os.ReadFile(filepath.Join(top, "docs", "bench.svg"))
	if errors.Is(err, os.ErrNotExist) && !strings.Contains(string(readme), "bench.svg") {
		return
	}
	var want strings.Builder
	if err := errors.Join(err, report.SVG(&want, r)); err != nil || string(picture) != want.String() {
		t.Errorf("docs/bench.svg is not what docs/bench.json makes of it: %s (%v)", again, err)
	}
}
