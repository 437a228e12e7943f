package main

import (
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/picket-go/picket"
)

// settings are the flags and arguments of run.
type settings struct {
	key  string
	argv []string

	noWait, closeLock, quiet, verbose  bool
	wait, ttl, grace, minHold, maxHold duration
	label, line                        string
	busyCode                           exitCode
}

const (
	minTTL = 100 * time.Millisecond
	maxTTL = 24 * time.Hour
)

func newSettings(cmd *cobra.Command) *settings {
	s := &settings{
		busyCode: exitBusy,

		ttl:     duration{value: 30 * time.Second, min: minTTL, max: maxTTL},
		grace:   duration{max: maxTTL / 2},
		minHold: duration{max: maxTTL},
		maxHold: duration{min: minTTL, none: true},
	}
	f := cmd.Flags()
	f.SetInterspersed(false) // what follows KEY is the command's
	f.BoolVarP(&s.noWait, "no-wait", "n", false, "do not wait for a busy key")
	f.VarP(&s.wait, "wait", "w", "wait this long at most; a plain number is seconds, as in all durations (default: no limit)")
	f.Var(&s.ttl, "ttl", "how long a store with time limits keeps the lock when picket falls silent, 100ms to 24h")
	f.Var(&s.grace, "grace", "how long before the lock ends the command gets SIGTERM (default: a quarter of --ttl or --max-hold; 0 is SIGKILL at once)")
	f.Var(&s.minHold, "min-hold", "keep the key busy this long after the grant, even if the command is quicker")
	f.Var(&s.maxHold, "max-hold", "end the command, and the lock, this long after the grant")
	f.StringVar(&s.label, "label", "", "what others read about this holder (default: the command's name)")
	f.VarP(&s.busyCode, "busy-code", "E", "exit `code` when the key is busy, 0 to 255")
	f.BoolVar(&s.closeLock, "close-lock", false, "do not let the command inherit the lock's descriptor (for jobs that daemonise)")
	f.StringVarP(&s.line, "command", "c", "", "run this `line` with a shell instead of COMMAND")
	f.BoolVarP(&s.quiet, "quiet", "q", false, "say nothing about busy keys, waiting and the default store")
	f.BoolVarP(&s.verbose, "verbose", "v", false, "say what happens")
	return s
}

// complete takes the arguments and checks what single flags could not.
func (s *settings) complete(cmd *cobra.Command, args []string) error {
	if err := s.command(args, cmd.Flags().Changed("command")); err != nil {
		return err
	}
	switch {
	case s.noWait && s.wait.set:
		return exitf(exitUsage, "--no-wait and --wait exclude each other")
	case s.quiet && s.verbose:
		return exitf(exitUsage, "--quiet and --verbose exclude each other")
	}
	if !s.grace.set {
		s.grace.value = s.term() / 4
	}
	if !cmd.Flags().Changed("label") {
		s.label = labelOf(s.argv[0])
	}
	return nil
}

// command finds KEY and COMMAND. flock(1) takes -c behind the name of the lock, so here it is allowed in both places.
func (s *settings) command(args []string, hasLine bool) error {
	if len(args) == 0 {
		return exitf(exitUsage, "KEY and COMMAND are missing")
	}
	s.key, s.argv = args[0], args[1:]
	first := ""
	if len(s.argv) > 0 {
		first = s.argv[0]
	}
	flag, line, joined := strings.Cut(first, "=")
	switch {
	case hasLine:
	case first == "-c" || first == "--command":
		if len(s.argv) == 1 {
			return exitf(exitUsage, "%s needs a line for the shell", first)
		}
		hasLine, s.line, s.argv = true, s.argv[1], s.argv[2:]
	case joined && flag == "--command":
		hasLine, s.line, s.argv = true, line, s.argv[1:]
	case first == "--":
		s.argv = s.argv[1:]
	case strings.HasPrefix(first, "-"):
		return exitf(exitUsage, "%q stands behind KEY, where the command is: put flags before KEY, or -- before a command of this name", first)
	}
	switch {
	case !hasLine && len(s.argv) > 0 && s.argv[0] == "":
		return exitf(exitUsage, "COMMAND is empty behind KEY %q", s.key)
	case hasLine && len(s.argv) > 0:
		return exitf(exitUsage, "-c takes one line for the shell and no COMMAND beside it: %q is too much", s.argv[0])
	case hasLine:
		s.argv = shell(s.line)
	case len(s.argv) == 0:
		return exitf(exitUsage, "COMMAND is missing after KEY %q", s.key)
	}
	return nil
}

func shell(line string) []string {
	if runtime.GOOS == "windows" {
		return []string{"cmd", "/c", line}
	}
	return []string{"sh", "-c", line}
}

// term is the longest time that the lock lasts without renewal.
func (s *settings) term() time.Duration {
	if s.maxHold.value > 0 {
		return min(s.ttl.value, s.maxHold.value)
	}
	return s.ttl.value
}

// labelOf makes a label of any command's name: at most 128 bytes of printable text.
func labelOf(command string) string {
	name := filepath.Base(command)
	if strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }) {
		name = strconv.QuoteToASCII(name)
	}
	for n := range name {
		if n > 124 { // leaves room for the last rune
			return name[:n]
		}
	}
	return name
}

// locker returns a Locker for this run; watch is told of each renewal.
func (s *settings) locker(st *store, watch func()) *picket.Locker {
	return picket.New(st.Store,
		picket.WithTTL(s.ttl.value),
		picket.WithGrace(s.grace.value),
		picket.WithMinHold(s.minHold.value),
		picket.WithMaxHold(s.maxHold.value),
		picket.WithLabel(s.label),
		picket.WithObserver(picket.Observer{RenewEnd: func(picket.RenewEvent) { watch() }}),
	)
}
