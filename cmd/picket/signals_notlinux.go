//go:build unix && !linux

package main

import "os"

func moreSignals() []os.Signal { return nil }
