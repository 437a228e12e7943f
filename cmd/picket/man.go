package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
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
			return writeTopics(args[0])
		},
	}
}

// writeTopics writes the help topics, which cobra leaves out, as they are.
func writeTopics(dir string) error {
	escape := strings.NewReplacer(`\`, `\e`, "-", `\-`, "\n", "\n\\&")
	for _, topic := range topics() {
		page := fmt.Sprintf(".TH \"PICKET\\-%s\" \"1\" \"Jan 1970\" \"picket\" \"Picket\"\n.SH NAME\npicket\\-%s \\- %s\n.SH DESCRIPTION\n.nf\n\\&%s\n.fi\n",
			escape.Replace(strings.ToUpper(topic.Use)), escape.Replace(topic.Use), escape.Replace(topic.Short), escape.Replace(topic.Long))
		if err := os.WriteFile(filepath.Join(dir, "picket-"+topic.Use+".1"), []byte(page), 0o644); err != nil {
			return exitf(exitFailed, "cannot write the man pages: %s", err)
		}
	}
	return nil
}
