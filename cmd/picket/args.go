package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/picket-go/picket"
)

// exactArgs wants one argument for each name.
func exactArgs(names ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) < len(names) {
			return exitf(exitUsage, "%s is missing", names[len(args)])
		}
		return noMore(args, len(names))
	}
}

func noMore(args []string, n int) error {
	if len(args) > n {
		return exitf(exitUsage, "unexpected argument %q", args[n])
	}
	return nil
}

// completeKey completes the first argument from the keys of the store.
func (p *program) completeKey(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	s, err := p.open()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	lister, ok := s.Store.(picket.Lister)
	if !ok {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var keys []string
	for st, err := range lister.List(cmd.Context(), begun) {
		if err != nil {
			break
		}
		if !strings.ContainsAny(st.Key, "\t\n") && printable(st.Key) == st.Key { // a completion is one line, described after a tab
			keys = append(keys, st.Key+"\t"+st.State)
		}
	}
	return keys, cobra.ShellCompDirectiveNoFileComp
}
