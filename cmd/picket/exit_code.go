package main

import (
	"errors"
	"strconv"
)

// exitCode is a flag that takes an exit code.
type exitCode int

// Set implements pflag.Value.
func (c *exitCode) Set(s string) error {
	n, err := strconv.ParseUint(s, 10, 8)
	if err != nil {
		return errors.New("not a number from 0 to 255")
	}
	*c = exitCode(n)
	return nil
}

func (c *exitCode) String() string { return strconv.Itoa(int(*c)) }

// Type implements pflag.Value.
func (c *exitCode) Type() string { return "code" }
