package stats_test

import (
	"math"
	"testing"
	"time"

	"github.com/picket-go/picket/lab/internal/stats"
)

func TestMedianIsTheMiddleValue(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		values []float64
		want   float64
	}{
		{nil, 0},
		{[]float64{7}, 7},
		{[]float64{9, 1, 5}, 5},
		{[]float64{4, 1, 3, 2}, 2.5},
		{[]float64{math.MaxFloat64, math.MaxFloat64}, math.MaxFloat64}, // a sum would overflow
	} {
		if got := stats.Median(c.values); got != c.want {
			t.Errorf("Median(%v) = %v, want %v", c.values, got, c.want)
		}
	}
}

func TestMedianLeavesTheValuesInTheirOrder(t *testing.T) {
	t.Parallel()
	values := []int{3, 1, 2}
	stats.Median(values)
	if values[0] != 3 {
		t.Errorf("Median sorted its argument: %v", values)
	}
}

func TestPercentileIsAValueThatWasMeasured(t *testing.T) {
	t.Parallel()
	var hundred []time.Duration
	for i := range 100 {
		hundred = append(hundred, time.Duration(100-i))
	}
	for _, c := range []struct {
		values []time.Duration
		p      float64
		want   time.Duration
	}{
		{nil, 99, 0},
		{hundred, 0, 1},
		{hundred, 50, 50},
		{hundred, 99, 99},
		{hundred, 99.5, 100},
		{hundred, 100, 100},
		{[]time.Duration{8, 3}, 99, 8},
	} {
		if got := stats.Percentile(c.values, c.p); got != c.want {
			t.Errorf("Percentile(%d values, %v) = %v, want %v", len(c.values), c.p, got, c.want)
		}
	}
}

func TestJainIsOneForEqualSharesAndOneNthForOneWinner(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		shares []int
		want   float64
	}{
		{[]int{5, 5, 5, 5}, 1},
		{[]int{12, 0, 0, 0}, 0.25},
		{[]int{1, 3}, 0.8},
		{[]int{0, 0}, 0},
		{nil, 0},
	} {
		if got := stats.Jain(c.shares); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("Jain(%v) = %v, want %v", c.shares, got, c.want)
		}
	}
}
