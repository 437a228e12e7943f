//go:build race

package picket_test

// raced says that the race detector is on: it multiplies time, and adds allocations of its own.
const raced = true
