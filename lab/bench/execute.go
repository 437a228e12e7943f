package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	"github.com/picket-go/picket/lab/internal/measure"
	"github.com/picket-go/picket/lab/internal/report"
	"github.com/picket-go/picket/lab/internal/result"
	"github.com/picket-go/picket/lab/internal/server"
)

// streams are where output goes.
type streams struct{ out, err io.Writer }

// say tells the user; who does not listen cannot be told that either.
func (s streams) say(format string, args ...any) {
	_, _ = fmt.Fprintf(s.err, "bench: "+format+"\n", args...)
}

const (
	exitFailure     = 1
	exitUsage       = 2
	exitInterrupted = 130 // as a shell says of Ctrl-C
)

// execute is the program without its process.
func execute(ctx context.Context, args []string, out streams) int {
	if len(args) > 0 && args[0] == measure.ProbeArgument {
		return exit(ctx, measure.Probe(ctx, out.out, args[1:]), out)
	}
	s, err := parse(args, out)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		return exitUsage
	}
	return exit(ctx, s.run(ctx, out), out)
}

func exit(ctx context.Context, err error, out streams) int {
	switch {
	case err == nil:
		return 0
	case ctx.Err() != nil:
		out.say("interrupted")
		return exitInterrupted
	}
	out.say("%v", err)
	return exitFailure
}

func (s settings) run(ctx context.Context, out streams) error {
	r, err := s.results(ctx, out)
	if err != nil {
		return err
	}
	if err := s.write(r); err != nil {
		return err
	}
	switch {
	case s.json:
		return r.Write(out.out)
	case s.from != "" && (s.svg != "" || s.readme != ""):
		return nil // That was all.
	}
	return report.Table(out.out, r)
}

// results are measured, or read from a file.
func (s settings) results(ctx context.Context, out streams) (*result.Run, error) {
	if s.from == "" {
		return s.measure(ctx, out)
	}
	text, err := os.ReadFile(s.from)
	if err != nil {
		return nil, err
	}
	r, err := result.Read(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.from, err)
	}
	return r, nil
}

func (s settings) measure(ctx context.Context, out streams) (*result.Run, error) {
	srv, err := server.Start(ctx)
	if err != nil {
		return nil, err
	}
	defer srv.Close()
	p := newProgress(out.err)
	b := &measure.Bench{Plan: s.plan, Server: srv, Rivals: s.rivals, Limit: s.limit, Progress: p.show}
	err = s.runAll(ctx, b)
	p.clear()
	if err == errBudget { //nolint:errorlint // context.Cause returns it as it is
		out.say("%s are over, so something is missing or was cut short", s.plan.Budget)
		err = nil
	}
	if err != nil {
		return nil, err
	}
	return s.describe(srv, b.Samples.Measurements()), nil
}

var errBudget = errors.New("the time is over")

// runAll runs the benchmarks one after another, on an empty server each.
func (s settings) runAll(ctx context.Context, b *measure.Bench) error {
	if s.plan.Budget > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, s.plan.Budget, errBudget)
		defer cancel()
	}
	steps := map[string]func(context.Context) error{result.Pairs: b.Pairs, result.Handoff: b.Handoff, result.Renew: b.Renew, result.Cluster: b.Cluster}
	for _, name := range s.benches {
		err := b.Server.Flush(ctx)
		if err == nil {
			err = steps[name](ctx)
		}
		if ended := context.Cause(ctx); ended != nil {
			return ended
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// describe says where and how it was measured.
func (s settings) describe(srv *server.Server, m []result.Measurement) *result.Run {
	r := &result.Run{Measurements: m}
	kind := ""
	if s.quick {
		kind = ", quick run"
	}
	r.Describe(result.Machine, fmt.Sprintf("%s, %s/%s, %d CPUs, %s, %s%s",
		srv.Version, runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version(), time.Now().UTC().Format(time.DateOnly), kind))
	settings := map[string]string{measure.Limit: measure.LimitSettings}
	for _, v := range s.rivals {
		settings[v.Name] = v.Settings
	}
	for _, m := range m {
		if text, ok := settings[m.Impl]; ok && r.Settings(m.Impl) == "" {
			r.Describe(m.Impl, text)
		}
	}
	return r
}

// write makes the files that were asked for.
func (s settings) write(r *result.Run) error {
	if s.svg != "" {
		var picture bytes.Buffer
		if err := report.SVG(&picture, r); err != nil {
			return fmt.Errorf("%s: %w", s.svg, err)
		}
		if err := os.WriteFile(s.svg, picture.Bytes(), 0o644); err != nil { //nolint:gosec // a picture for all to see
			return err
		}
	}
	if s.readme == "" {
		return nil
	}
	old, err := os.ReadFile(s.readme)
	if err != nil {
		return err
	}
	text, err := report.Readme(string(old), r)
	if err != nil {
		return fmt.Errorf("%s: %w", s.readme, err)
	}
	return os.WriteFile(s.readme, []byte(text), 0o644) //nolint:gosec // it was that before
}
