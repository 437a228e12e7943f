package report

import (
	"math"
	"strconv"
	"strings"
)

// number writes v with the digits that a measurement deserves: 128,000 and 43.2 and 0.999.
func number(v float64) string {
	switch abs := math.Abs(v); {
	case abs >= 999.5:
		return thousands(v)
	case abs >= 100 || v == math.Trunc(v):
		return strconv.FormatFloat(v, 'f', 0, 64)
	case abs >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case abs >= 1:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
	return strconv.FormatFloat(v, 'f', 3, 64)
}

// thousands rounds to three digits and groups them.
func thousands(v float64) string {
	scale := math.Pow(10, math.Floor(math.Log10(math.Abs(v)))-2)
	digits := strconv.FormatFloat(math.Round(v/scale)*scale, 'f', 0, 64)
	var b strings.Builder
	for i, d := range digits {
		if left := len(digits) - i; i > 0 && left%3 == 0 && digits[i-1] != '-' {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return b.String()
}

// times writes a ratio: 3.8x, 0.27x.
func times(v float64) string {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "-"
	case v >= 10:
		return strconv.FormatFloat(v, 'f', 0, 64) + "x"
	case v >= 1:
		return strconv.FormatFloat(v, 'f', 1, 64) + "x"
	}
	return strconv.FormatFloat(v, 'f', 2, 64) + "x"
}
