package report

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/picket-go/picket/lab/internal/measure"
	"github.com/picket-go/picket/lab/internal/result"
)

// invented numbers, chosen so that goals are met, half met and missed.
func invented() *result.Run {
	r := &result.Run{}
	r.Describe(result.Machine, "Redis 7.0.15, linux/amd64, 2 CPUs")
	r.Describe("picket", "defaults")
	r.Describe("redislock", "LinearBackoff(10ms)")
	var s result.Samples
	add := func(c result.Case, metric string, values map[string]float64) {
		for _, impl := range []string{"picket", "redislock", "redsync", "rueidislock", "raw", "limit"} {
			if v, ok := values[impl]; ok {
				s.Add(c.By(impl).Of(metric), v)
				s.Add(c.By(impl).Of(metric), v*1.5)
				s.Add(c.By(impl).Of(metric), v*0.5)
			}
		}
	}
	add(result.PairsBy(256), measure.PairsPerSecond, map[string]float64{"picket": 120_000, "redislock": 34_500, "redsync": 30_000, "rueidislock": 80_000, "limit": 100_000})
	add(result.PairsBy(256), measure.Failed, map[string]float64{"picket": 0, "redislock": 0})
	add(result.PairsBy(1), measure.PairsPerSecond, map[string]float64{"picket": 8_000, "raw": 8_800})
	add(result.ClusterBy(256), measure.PairsPerSecond, map[string]float64{"picket": 60_000, "redislock": 42_000, "raw": 44_000})
	add(result.ClusterBy(16), measure.PairsPerSecond, map[string]float64{"picket": 30_000, "redislock": 25_000})
	add(result.HandoffOf(32, 1), measure.SectionsPerSecond, map[string]float64{"picket": 800, "redislock": 780, "rueidislock": 720})
	add(result.HandoffOf(32, 1), measure.WaitP99, map[string]float64{"picket": 43.24, "redislock": 690, "rueidislock": 367})
	add(result.HandoffOf(32, 1), measure.WaitMax, map[string]float64{"picket": 60, "redislock": 2_100, "rueidislock": 900})
	add(result.HandoffOf(32, 1), measure.Jain, map[string]float64{"picket": 0.9991, "redislock": 0.87})
	add(result.HandoffOf(32, 1), measure.GaveUp, map[string]float64{"picket": 0, "redislock": 0, "rueidislock": 2})
	add(result.RenewOf(100_000), measure.Lost, map[string]float64{"picket": 0})
	add(result.RenewOf(100_000), measure.BesideRatio, map[string]float64{"picket": 0.85})
	r.Measurements = s.Measurements()
	return r
}

// golden compares with a file; UPDATE=1 go test rewrites it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || got != string(want) {
		t.Errorf("got\n%s\nwant\n%s (%v)", got, want, err)
	}
}

func TestTableShowsMediansRatiosAndGoals(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	if err := Table(&out, invented()); err != nil {
		t.Fatal(err)
	}
	golden(t, "table.txt", out.String())
}

func TestReadmeIsRewrittenBetweenItsMarksOnly(t *testing.T) {
	t.Parallel()
	got, err := Readme("before\n"+Begin+"\nold\n"+End+"\nafter\n", invented())
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "readme.md", got)
	if again, err := Readme(got, invented()); err != nil || again != got {
		t.Errorf("a second time gives something else: %s (%v)", again, err)
	}
	for _, text := range []string{"", Begin, End + Begin} {
		if _, err := Readme(text, invented()); !errors.Is(err, ErrNoBlock) {
			t.Errorf("Readme(%q): %v", text, err)
		}
	}
}

func TestPictureIsTheSameForTheSameRun(t *testing.T) {
	t.Parallel()
	var first, second strings.Builder
	if err := errors.Join(SVG(&first, invented()), SVG(&second, invented())); err != nil {
		t.Fatal(err)
	}
	if first.String() != second.String() {
		t.Error("two pictures of one run differ")
	}
	for _, want := range []string{"Picket", "bsm/redislock", "redsync", "raw commands", "1 caller", "256", "p99", "longest", "sans-serif"} {
		if !strings.Contains(first.String(), want) {
			t.Errorf("%q is not in the picture", want)
		}
	}
	if err := SVG(&first, &result.Run{}); !errors.Is(err, ErrNothingToDraw) {
		t.Errorf("a picture of nothing: %v", err)
	}
}

func TestGoalIsMetMissedOrNotMeasured(t *testing.T) {
	t.Parallel()
	measured := func(v float64) func(*result.Run) (float64, bool) {
		return func(*result.Run) (float64, bool) { return v, true }
	}
	for _, c := range []struct {
		g    goal
		want string
	}{
		{atLeast("", "", 3, 4, measured(4)), met},
		{atLeast("", "", 3, 4, measured(3.99)), aimMissed},
		{atLeast("", "", 3, 4, measured(2.99)), mustMissed},
		{atLeast("", "", 0.95, 0, measured(0.95)), met},
		{atMost("", "", 1.5, 1, measured(1)), met},
		{atMost("", "", 1.5, 1, measured(1.5)), aimMissed},
		{atMost("", "", 1.5, 1, measured(1.51)), mustMissed},
		{atMost("", "", 0, 0, measured(1)), mustMissed},
		{atLeast("", "", 1, 0, measured(math.NaN())), unmeasured},
		{atLeast("", "", 1, 0, against(result.PairsBy(256).Of(measure.PairsPerSecond), "nobody")), unmeasured},
	} {
		if v, got := c.g.verdict(invented()); got != c.want {
			t.Errorf("%+v of %v is %q, want %q", c.g, v, got, c.want)
		}
	}
}

func TestNumbersHaveTheDigitsThatTheyDeserve(t *testing.T) {
	t.Parallel()
	for v, want := range map[float64]string{
		0: "0", 1: "1", 128_345: "128,000", 1_284: "1,280", 999.6: "1,000", 612.4: "612", 43.24: "43.2", 1.256: "1.26", 0.9994: "0.999", 12_345_678: "12,300,000",
	} {
		if got := number(v); got != want {
			t.Errorf("number(%v) = %s, want %s", v, got, want)
		}
	}
}
