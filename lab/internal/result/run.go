package result

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Measurement is the outcome of one case over all rounds.
type Measurement struct {
	Case
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	Rounds int     `json:"rounds"`
}

// MarshalJSON leaves hold_ms out where nobody holds: 0 ms is a load like another.
func (m Measurement) MarshalJSON() ([]byte, error) {
	type plain Measurement // without this method
	if m.Workers > 0 {
		return json.Marshal(plain(m))
	}
	return json.Marshal(struct {
		plain
		HoldMS int `json:"hold_ms,omitempty"` // wins, as it is less deep
	}{plain: plain(m)})
}

// About says with which settings an impl was run; of "machine" where it was.
type About struct {
	Bench    string `json:"bench"` // "about"
	Impl     string `json:"impl"`
	Settings string `json:"settings"`
}

const (
	about = "about"
	// Machine is the impl of the line that says where it was run.
	Machine = "machine"
)

// Run is all that one run has to say.
type Run struct {
	About        []About
	Measurements []Measurement
}

// Describe adds the settings of an impl.
func (r *Run) Describe(impl, settings string) {
	r.About = append(r.About, About{about, impl, settings})
}

// Settings of an impl; "" if the run has not said.
func (r *Run) Settings(impl string) string {
	i := slices.IndexFunc(r.About, func(a About) bool { return a.Impl == impl })
	if i < 0 {
		return ""
	}
	return r.About[i].Settings
}

// Get returns the measurement of a case.
func (r *Run) Get(c Case) (Measurement, bool) {
	i := slices.IndexFunc(r.Measurements, func(m Measurement) bool { return m.Case == c })
	if i < 0 {
		return Measurement{}, false
	}
	return r.Measurements[i], true
}

// Impls are those with a measurement of the load of c, whatever c.Impl is, in their order.
func (r *Run) Impls(c Case) []string {
	var impls []string
	for _, m := range r.Measurements {
		if m.Case == c.By(m.Impl) && !slices.Contains(impls, m.Impl) {
			impls = append(impls, m.Impl)
		}
	}
	return impls
}

// Write writes one object a line.
func (r *Run) Write(w io.Writer) error {
	out := json.NewEncoder(w)
	for _, a := range r.About {
		if err := out.Encode(a); err != nil {
			return err
		}
	}
	for _, m := range r.Measurements {
		if err := out.Encode(m); err != nil {
			return err
		}
	}
	return nil
}

// Read reads what Write has written.
func Read(from io.Reader) (*Run, error) {
	r := &Run{}
	in := json.NewDecoder(from)
	for n := 1; ; n++ {
		var line struct {
			Measurement
			Settings string `json:"settings"`
		}
		switch err := in.Decode(&line); {
		case errors.Is(err, io.EOF):
			return r, nil
		case err != nil:
			return nil, fmt.Errorf("object %d: %w", n, err)
		case line.Bench == about:
			r.Describe(line.Impl, line.Settings)
		case line.Bench == "" || line.Impl == "" || line.Metric == "":
			return nil, fmt.Errorf("object %d has no bench, impl or metric", n)
		default:
			r.Measurements = append(r.Measurements, line.Measurement)
		}
	}
}
