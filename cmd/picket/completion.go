package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

var shells = []string{"bash", "zsh", "fish", "powershell"}

// newCompletion replaces cobra's, which exits 0 without a shell, and on an unknown one.
func (p *program) newCompletion() *cobra.Command {
	return &cobra.Command{
		Use:   "completion SHELL",
		Short: "Print the script that completes commands, flags and keys",
		Example: `  source <(picket completion bash)
  picket completion zsh >"${fpath[1]}/_picket"
  picket completion fish >~/.config/fish/completions/picket.fish`,
		Long:      "SHELL is " + strings.Join(shells, ", ") + ".",
		ValidArgs: shells,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return exitf(exitUsage, "SHELL is missing; possible are %s", strings.Join(shells, ", "))
			}
			return noMore(args, 1)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			root, text := cmd.Root(), new(strings.Builder)
			var err error
			switch args[0] {
			case "bash":
				err = root.GenBashCompletionV2(text, true)
			case "zsh":
				err = root.GenZshCompletion(text)
			case "fish":
				err = root.GenFishCompletion(text, true)
			case "powershell":
				err = root.GenPowerShellCompletionWithDesc(text)
			default:
				return exitf(exitUsage, "shell %q is unknown; possible are %s", args[0], strings.Join(shells, ", "))
			}
			if err != nil {
				return exitf(exitFailed, "cannot write the completion: %s", err)
			}
			return written(fmt.Fprint(p.out, text))
		},
	}
}
