//go:build !race

package picket_test

const raced = false
