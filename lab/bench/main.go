// Bench compares Picket on Redis with other lock libraries, with the plain commands and with what the server can do at best, in one run on servers of its own.
//
//	go run ./lab/bench -quick
//	go run ./lab/bench -json > docs/bench.json
//	go run ./lab/bench -from docs/bench.json -svg docs/bench.svg -readme README.md
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := execute(ctx, os.Args[1:], streams{os.Stdout, os.Stderr})
	stop()
	os.Exit(code)
}
