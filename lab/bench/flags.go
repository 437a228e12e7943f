package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/picket-go/picket/lab/internal/measure"
	"github.com/picket-go/picket/lab/internal/result"
	"github.com/picket-go/picket/lab/internal/rival"
)

const usage = `Usage: go run ./lab/bench [pairs|handoff|renew|cluster|all] [flags]

  pairs    acquire and release, each caller on a key of its own, and a GET of somebody else meanwhile
  handoff  many workers on one key, waiters on a held key, from a release until the next is told
  renew    many leases for three TTLs, acquirers beside them
  cluster  the pairs on a Redis Cluster of three masters
  all      the four; about 16 minutes

It starts servers of its own. Other work on the machine falsifies the numbers.

`

// settings are what the command line asks for.
type settings struct {
	benches []string
	rivals  []rival.Rival
	limit   bool
	plan    measure.Plan
	quick   bool
	json    bool
	svg     string
	from    string
	readme  string
}

// errUsage is an error that has been told to the user.
var errUsage = errors.New("usage")

func parse(args []string, out streams) (settings, error) {
	var (
		s      settings
		names  string
		rounds int
	)
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(out.err)
	f.Usage = func() {
		_, _ = io.WriteString(out.err, usage)
		f.PrintDefaults()
	}
	f.BoolVar(&s.quick, "quick", false, "end within 45 s: everything works, the numbers mean little")
	f.BoolVar(&s.json, "json", false, "print JSON, one object a line, instead of the table")
	f.StringVar(&s.svg, "svg", "", "draw into this `file`")
	f.StringVar(&s.from, "from", "", "measure nothing, use the JSON in this `file`")
	f.StringVar(&s.readme, "readme", "", "rewrite the part of this `file` between "+`"<!-- bench:begin -->" and "<!-- bench:end -->"`)
	f.IntVar(&rounds, "rounds", 0, "interleaved rounds to take the median of (default 5, with -quick 1)")
	f.StringVar(&names, "rivals", "picket,redislock,redsync,rueidislock,raw,limit", "whom to compare; limit is the server's own")

	words, err := parseMixed(f, args)
	if err != nil {
		return s, err
	}
	refuse := func(format string, args ...any) (settings, error) {
		out.say(format, args...)
		return s, errUsage
	}
	if s.benches, err = benches(words); err != nil {
		return refuse("%v", err)
	}
	s.plan = measure.Full()
	if s.quick {
		s.plan = measure.Quick()
	}
	if rounds < 0 {
		return refuse("-rounds %d is negative", rounds)
	}
	if rounds > 0 {
		s.plan.Rounds = rounds
	}
	all := strings.Split(names, ",")
	s.limit = slices.Contains(all, measure.Limit)
	all = slices.DeleteFunc(all, func(name string) bool { return name == measure.Limit })
	if s.rivals, err = rival.Select(all); err != nil {
		return refuse("%v, %s", err, measure.Limit)
	}
	return s, nil
}

// parseMixed takes flags before, between and after words; package flag stops at the first word.
func parseMixed(f *flag.FlagSet, args []string) (words []string, err error) {
	for {
		if err := f.Parse(args); errors.Is(err, flag.ErrHelp) {
			return nil, err
		} else if err != nil {
			return nil, errUsage
		}
		if f.NArg() == 0 {
			return words, nil
		}
		words = append(words, f.Arg(0))
		args = f.Args()[1:]
	}
}

func benches(words []string) ([]string, error) {
	all := []string{result.Pairs, result.Handoff, result.Renew, result.Cluster}
	switch {
	case len(words) > 1:
		return nil, fmt.Errorf("%q: name one of %s, or all", words, strings.Join(all, ", "))
	case len(words) == 0 || words[0] == "all":
		return all, nil
	case !slices.Contains(all, words[0]):
		return nil, fmt.Errorf("there is no benchmark %q: there are %s, all", words[0], strings.Join(all, ", "))
	}
	return words, nil
}
