package main

import (
	"fmt"
	"io"
	"os"
	"time"
)

// progress is one line on a terminal that says what is being measured; elsewhere it is nothing.
type progress struct {
	to    io.Writer // nil: not a terminal
	begin time.Time
}

func newProgress(to io.Writer) progress {
	file, ok := to.(*os.File)
	if !ok {
		return progress{}
	}
	if info, err := file.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return progress{}
	}
	return progress{file, time.Now()}
}

const eraseLine = "\r\x1b[K"

func (p progress) show(what string) {
	if p.to != nil {
		_, _ = fmt.Fprintf(p.to, "%s%4.0f s  %s", eraseLine, time.Since(p.begin).Seconds(), what)
	}
}

func (p progress) clear() {
	if p.to != nil {
		_, _ = fmt.Fprint(p.to, eraseLine)
	}
}
