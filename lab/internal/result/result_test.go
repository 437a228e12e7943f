package result_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/picket-go/picket/lab/internal/result"
)

func sample() *result.Run {
	r := &result.Run{}
	r.Describe("redislock", `LinearBackoff(10ms), "quoted"`)
	var s result.Samples
	for _, v := range []float64{120, 100, 150} {
		s.Add(result.PairsBy(256).By("picket").Of("pairs_per_s"), v)
	}
	s.Add(result.ClusterBy(256).By("picket").Of("pairs_per_s"), 200)
	s.Add(result.HandoffOf(32, 0).By("picket").Of("jain"), 0.99)
	s.Add(result.HandoffOf(32, 1).By("picket").Of("jain"), 1)
	s.Add(result.HeldFor(64).By("picket").Of("cpu_percent"), 0.5)
	r.Measurements = s.Measurements()
	return r
}

// The schema is a promise: other programs read it.
func TestEachMeasurementIsOneObjectOnOneLine(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	if err := sample().Write(&out); err != nil {
		t.Fatal(err)
	}
	want := `{"bench":"about","impl":"redislock","settings":"LinearBackoff(10ms), \"quoted\""}
{"bench":"pairs","impl":"picket","callers":256,"metric":"pairs_per_s","median":120,"min":100,"max":150,"rounds":3}
{"bench":"cluster","impl":"picket","callers":256,"metric":"pairs_per_s","median":200,"min":200,"max":200,"rounds":1}
{"bench":"handoff","impl":"picket","workers":32,"hold_ms":0,"metric":"jain","median":0.99,"min":0.99,"max":0.99,"rounds":1}
{"bench":"handoff","impl":"picket","workers":32,"hold_ms":1,"metric":"jain","median":1,"min":1,"max":1,"rounds":1}
{"bench":"handoff","impl":"picket","waiters":64,"metric":"cpu_percent","median":0.5,"min":0.5,"max":0.5,"rounds":1}
`
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}

func TestReadReturnsWhatWriteWrote(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	if err := sample().Write(&out); err != nil {
		t.Fatal(err)
	}
	got, err := result.Read(strings.NewReader(out.String()))
	if err != nil || !reflect.DeepEqual(got, sample()) {
		t.Errorf("got %+v, %v\nwant %+v", got, err, sample())
	}
}

func TestReadRefusesWhatIsNoMeasurement(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"{", `{"bench":"pairs"}`, `[]`, `{"bench":"pairs","impl":"picket","metric":"x","median":"fast"}`} {
		if r, err := result.Read(strings.NewReader(text)); err == nil {
			t.Errorf("Read(%s) = %+v", text, r)
		}
	}
}

func TestImplsAreThoseThatWereMeasuredUnderThatLoad(t *testing.T) {
	t.Parallel()
	var s result.Samples
	s.Add(result.PairsBy(16).By("raw").Of("pairs_per_s"), 1)
	s.Add(result.PairsBy(256).By("picket").Of("pairs_per_s"), 1)
	s.Add(result.PairsBy(256).By("limit").Of("pairs_per_s"), 1)
	r := &result.Run{Measurements: s.Measurements()}
	if got := r.Impls(result.PairsBy(256).Of("pairs_per_s")); !reflect.DeepEqual(got, []string{"picket", "limit"}) {
		t.Errorf("Impls = %v", got)
	}
}
