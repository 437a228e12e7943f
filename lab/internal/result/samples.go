package result

import (
	"slices"

	"github.com/picket-go/picket/lab/internal/stats"
)

// Samples collects one value a round for each case.
type Samples struct {
	order  []Case
	values map[Case][]float64
}

// Add notes what a round measured.
func (s *Samples) Add(c Case, value float64) {
	if s.values == nil {
		s.values = map[Case][]float64{}
	}
	if _, ok := s.values[c]; !ok {
		s.order = append(s.order, c)
	}
	s.values[c] = append(s.values[c], value)
}

// Median is that of the rounds so far.
func (s *Samples) Median(c Case) (float64, bool) {
	values, ok := s.values[c]
	return stats.Median(values), ok
}

// Measurements are in the order in which their cases came first.
func (s *Samples) Measurements() []Measurement {
	var all []Measurement
	for _, c := range s.order {
		v := s.values[c]
		all = append(all, Measurement{Case: c, Median: stats.Median(v), Min: slices.Min(v), Max: slices.Max(v), Rounds: len(v)})
	}
	return all
}
