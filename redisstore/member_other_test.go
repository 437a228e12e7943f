//go:build !unix

package redisstore_test

import "os"

func pause(*os.Process) error { return nil }

func resume(*os.Process) error { return nil }

func abort(p *os.Process) error { return p.Kill() }
