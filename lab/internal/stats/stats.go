// Package stats has the few statistics that a benchmark of locks needs.
package stats

import (
	"cmp"
	"math"
	"slices"
)

// Number is what can be put in order and averaged.
type Number interface {
	~int | ~int64 | ~float64
}

// Median is the middle value, of an even number the mean of the two in the middle; 0 of none.
func Median[T Number](values []T) T {
	s := slices.Sorted(slices.Values(values))
	n := len(s)
	switch {
	case n == 0:
		return 0
	case n%2 == 1:
		return s[n/2]
	}
	return s[n/2-1] + (s[n/2]-s[n/2-1])/2
}

// Percentile is the smallest of the values that at least p percent of them do not exceed (nearest rank); 0 of none.
func Percentile[T cmp.Ordered](values []T, p float64) T {
	s := slices.Sorted(slices.Values(values))
	if len(s) == 0 {
		var none T
		return none
	}
	rank := int(math.Ceil(p / 100 * float64(len(s))))
	return s[min(max(rank, 1), len(s))-1]
}

// Jain is the fairness index of what each of n got: 1 when all got the same, 1/n when one got everything. See R. Jain, D. Chiu, W. Hawe, "A Quantitative Measure of
// Fairness and Discrimination for Resource Allocation in Shared Computer Systems", DEC-TR-301, 1984.
func Jain(shares []int) float64 {
	var sum, squares float64
	for _, s := range shares {
		sum += float64(s)
		squares += float64(s) * float64(s)
	}
	if squares == 0 {
		return 0
	}
	return sum * sum / (float64(len(shares)) * squares)
}
