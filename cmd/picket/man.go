package main

import (
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

func (p *program) newMan() *cobra.Command {
	return &cobra.Command{
		Use:     "man DIR",
		Short:   "Write the man pages into a directory that exists",
		Example: `  picket man /usr/local/share/man/man1`,
		Args:    exactArgs("DIR"),
		Hidden:  true,
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			root.DisableAutoGenTag = true // the same source gives the same pages
			date := time.Unix(0, 0).UTC()
			header := &doc.GenManHeader{Section: "1", Source: "picket", Manual: "Picket", Date: &date}
			if err := doc.GenManTree(root, header, args[0]); err != nil {
				return exitf(exitFailed, "cannot write the man pages: %s", err)
			}
			return nil
		},
	}
}
