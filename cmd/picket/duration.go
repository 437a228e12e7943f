package main

import (
	"fmt"
	"strconv"
	"time"
)

// duration is a flag that takes seconds as a plain number, as flock(1) does, or a Go duration.
type duration struct {
	value    time.Duration
	min, max time.Duration // max 0 is no bound
	none     bool          // 0 is allowed too and means that there is no limit
	set      bool
}

// Set implements pflag.Value. Its errors follow the text `invalid argument "x" for "--flag" flag: `.
func (d *duration) Set(s string) error {
	v, err := parseDuration(s)
	switch {
	case err != nil:
		return fmt.Errorf("not seconds (30, 0.5) nor a duration (1500ms, 30s, 5m)")
	case v == 0 && d.none:
	case v < d.min || d.max > 0 && v > d.max:
		return fmt.Errorf("%s is not allowed: %s", short(v), d.bounds())
	}
	d.value, d.set = v, true
	return nil
}

func (d *duration) bounds() string {
	text := "at least " + short(d.min)
	if d.max > 0 {
		text = fmt.Sprintf("from %s to %s", short(d.min), short(d.max))
	}
	if d.none && d.min > 0 {
		text = "0 or " + text
	}
	return text
}

func (d *duration) String() string {
	if !d.set && d.value == 0 {
		return ""
	}
	return short(d.value)
}

// Type implements pflag.Value.
func (d *duration) Type() string { return "duration" }

func parseDuration(s string) (time.Duration, error) {
	seconds, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return time.ParseDuration(s)
	}
	ns := seconds * float64(time.Second)
	if !(ns > -float64(1<<62) && ns < float64(1<<62)) { // NaN compares with nothing
		return 0, fmt.Errorf("%q is out of range", s)
	}
	return time.Duration(ns), nil
}

// short is d without the units that are zero at its end: 24h instead of 24h0m0s.
func short(d time.Duration) string {
	text := d.String()
	for _, unit := range []string{"m0s", "h0m"} {
		if n := len(text) - len(unit); n > 0 && text[n:] == unit {
			text = text[:n+1]
		}
	}
	return text
}
