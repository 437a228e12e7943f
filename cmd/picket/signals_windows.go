package main

import (
	"os"
	"syscall"
)

// forwardable: Windows has Ctrl-C and Ctrl-Break (INT), and the closing of the console (TERM).
func forwardable() []os.Signal { return []os.Signal{syscall.SIGINT, syscall.SIGTERM} }

func signalName(sig syscall.Signal) string { return sig.String() }

func catchOwn() {}
