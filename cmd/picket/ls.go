package main

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/picket-go/picket"
)

func (p *program) newList() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "ls [flags] [PREFIX]",
		Aliases: []string{"list"},
		Short:   "List the keys that are held or cool down",
		Example: `  picket ls
  picket ls backup/
  picket ls --json | jq -r 'select(.state == "held") | .key'`,
		Long:              `With --json each key is an object on a line of its own, with the fields of picket inspect.`,
		ValidArgsFunction: p.completeKey,
		Args:              func(_ *cobra.Command, args []string) error { return noMore(args, 1) },
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := p.open()
			if err != nil {
				return err
			}
			lister, ok := s.Store.(picket.Lister)
			if !ok {
				return exitf(exitUnavailable, "store %s cannot list its keys; use picket inspect KEY", s.name)
			}
			write, flush := p.rows(asJSON)
			code := 0
			for st, err := range lister.List(cmd.Context(), strings.Join(args, "")) {
				if err != nil { // one entry that cannot be read hides no other
					code = report(s.refusal(err), "", p.err)
					continue
				}
				if err := write(st); err != nil {
					return err
				}
			}
			if err := flush(); err != nil {
				return err
			}
			return &exitError{code: code}
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line")
	return cmd
}

// rows returns what writes one row of the list, and what ends it.
func (p *program) rows(asJSON bool) (write func(picket.Status) error, flush func() error) {
	if asJSON {
		return func(st picket.Status) error { return writeJSON(p.out, newKeyStatus(st)) }, func() error { return nil }
	}
	t := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
	begun := false
	write = func(st picket.Status) error {
		if !begun {
			begun = true
			if err := written(fmt.Fprintln(t, "KEY\tSTATE\tHOST\tPID\tSINCE\tREMAINING\tTOKEN\tLABEL")); err != nil {
				return err
			}
		}
		h := st.Holder
		cells := []string{printable(st.Key), st.State, printable(h.Host), positive(int64(h.PID)), when(h.Since), remaining(st), positive(st.Token), printable(h.Label)}
		for i, c := range cells {
			if c == "" {
				cells[i] = "-"
			}
		}
		return written(fmt.Fprintln(t, strings.Join(cells, "\t")))
	}
	return write, func() error { return written(0, t.Flush()) }
}

// remaining is the remaining time in a cell.
func remaining(st picket.Status) string {
	if st.Remaining == picket.NoExpiry {
		return "" // no clock ends it
	}
	return limit(st.Remaining)
}
