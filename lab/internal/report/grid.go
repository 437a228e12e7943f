package report

import (
	"io"
	"strings"
	"text/tabwriter"
)

// grid is lines of cells that are written below each other.
type grid struct{ lines [][]string }

func (g *grid) add(cells ...string) { g.lines = append(g.lines, cells) }

// write sets the first column to the left; with right, the others to the right, as numbers stand.
func (g *grid) write(out io.Writer, right bool) error {
	first := 0
	for _, cells := range g.lines {
		first = max(first, len(cells[0]))
	}
	var flags uint
	end := "\n"
	if right {
		flags, end = tabwriter.AlignRight, "\t\n" // text after the last tab is no cell, and stays where it is
	}
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', flags)
	for _, cells := range g.lines {
		pad := strings.Repeat(" ", first-len(cells[0]))
		if _, err := io.WriteString(t, cells[0]+pad+"\t"+strings.Join(cells[1:], "\t")+end); err != nil {
			return err
		}
	}
	return t.Flush()
}
