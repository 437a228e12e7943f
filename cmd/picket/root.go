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
	storeURL, storeFile, redisPrefix string

	given     func(flag string) bool // on the command line, be it empty
	unwritten error                  // of help, as cobra takes no error of it
}

func execute(args []string, s streams) int {
	p := &program{streams: s}
	root := p.newRoot()
	root.SetArgs(args)
	cmd, err := root.ExecuteC()
	if err == nil {
		err = p.unwritten
	}
	return report(err, cmd.CommandPath(), s.err)
}

func (p *program) newRoot() *cobra.Command {
	var version bool
	root := &cobra.Command{
		Use:   "picket [flags] COMMAND",
		Short: "Run a command under a lock, and see who holds one",
		Example: `  picket run nightly -- ./backup.sh        one at a time; others wait
  picket run -n nightly -- ./backup.sh     or give up at once with exit code 75
  picket inspect nightly                   who holds it, since when?
  picket ls                                all locks of the store`,
		Args: knownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if version {
				return p.printVersion()
			}
			return cmd.Help()
		},
		SilenceErrors: true,
		SilenceUsage:  true,

		DisableFlagsInUseLine: true,

		SuggestionsMinimumDistance: 2,
	}
	root.SetIn(p.in)
	root.SetOut(p.out)
	root.SetErr(p.err)
	root.SetHelpFunc(p.writeHelp)
	root.SetHelpCommand(p.newHelp())
	root.CompletionOptions.DisableDefaultCmd = true
	root.Flags().BoolVar(&version, "version", false, "print the version")
	f := root.PersistentFlags()
	p.given = f.Changed
	f.StringVar(&p.storeURL, "store", "", "`URL` of the store, such as file:///var/lib/picket or redis://host:6379/0 (default $PICKET_STORE, else files of this user)")
	f.StringVar(&p.storeFile, "store-file", "", "`file` with the URL of the store, for a URL with a password (default $PICKET_STORE_FILE)")
	f.StringVar(&p.redisPrefix, "redis-prefix", "", "what the keys in Redis begin with (default $PICKET_REDIS_PREFIX, else lock:)")
	root.AddCommand(p.newRun(), p.newInspect(), p.newList(), p.newVersion(), p.newCompletion(), p.newMan())
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
