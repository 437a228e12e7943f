package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

type streams struct{ in, out, err *os.File }

// program is what all commands share: where they read and write, and the flags of the root.
type program struct {
	streams
	storeURL string
}

func execute(args []string, s streams) int {
	root := newRoot(s)
	root.SetArgs(args)
	cmd, err := root.ExecuteC()
	return report(err, cmd.CommandPath(), s.err)
}

func newRoot(s streams) *cobra.Command {
	p := &program{streams: s}
	root := &cobra.Command{
		Use:   "picket",
		Short: "Run a command under a lock, and see who holds one",
		Example: `  picket run nightly -- ./backup.sh        one at a time; others wait
  picket run -n nightly -- ./backup.sh     or give up at once with exit code 75
  picket inspect nightly                   who holds it, since when?
  picket ls                                all locks of the store`,
		Args:          knownCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SilenceErrors: true,
		SilenceUsage:  true,

		SuggestionsMinimumDistance: 2,
	}
	root.SetIn(s.in)
	root.SetOut(s.out)
	root.SetErr(s.err)
	root.SetHelpFunc(writeHelp)
	root.SetHelpCommand(p.newHelp())
	root.PersistentFlags().StringVar(&p.storeURL, "store", "", "`URL` of the store, such as file:///var/lib/picket (default $PICKET_STORE, else files of this user)")
	root.AddCommand(p.newRun(), p.newInspect(), p.newList(), p.newVersion(), p.newMan())
	root.AddCommand(topics()...)
	return root
}

func knownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	text := fmt.Sprintf("unknown command %q", args[0])
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		text += ", did you mean " + strings.Join(near, " or ") + "?"
	}
	return exitf(exitUsage, "%s", text)
}

// noFiles is the completion of arguments that are neither keys nor files.
func noFiles(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveNoFileComp
}
