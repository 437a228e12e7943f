package report

import (
	"bytes"
	"errors"
	"image/color"
	"io"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/picket-go/picket/lab/internal/measure"
	"github.com/picket-go/picket/lab/internal/result"
)

// ErrNothingToDraw says that a run has none of what the picture shows.
var ErrNothingToDraw = errors.New("neither pairs nor a handoff were measured")

// panel is one of the pictures beside each other: a group of bars for each load, a bar for each impl.
type panel struct {
	title, axis string
	groups      []group
}

type group struct {
	name string
	c    result.Case
}

func panels() []panel {
	pairs := func(n int) result.Case { return result.PairsBy(n).Of(measure.PairsPerSecond) }
	wait := func(metric string) result.Case { return result.HandoffOf(32, 1).Of(metric) }
	return []panel{
		{"Acquire + release, each caller its own key", "pairs a second (more is better)", []group{{"1 caller", pairs(1)}, {"16", pairs(16)}, {"256", pairs(256)}}},
		{"32 workers, one key, 1 ms of work", "wait in ms (less is better)", []group{{"median", wait(measure.WaitP50)}, {"p99", wait(measure.WaitP99)}, {"longest", wait(measure.WaitMax)}}},
	}
}

// bars are who is drawn, in which colour: Picket stands out, the raw commands and the limit, which are no libraries, are pale.
var bars = []struct {
	impl, title string
	colour      color.RGBA
}{
	{"picket", "Picket", color.RGBA{0x0b, 0x7a, 0x53, 0xff}},
	{"redislock", "bsm/redislock", color.RGBA{0x3b, 0x5b, 0x92, 0xff}},
	{"redsync", "redsync", color.RGBA{0xd0, 0x8c, 0x2b, 0xff}},
	{"rueidislock", "rueidislock", color.RGBA{0x9c, 0x4f, 0x8a, 0xff}},
	{"raw", "raw commands", color.RGBA{0xb8, 0xb8, 0xb8, 0xff}},
}

const (
	panelWidth  = 420
	panelHeight = 300
	barWidth    = 15
)

// SVG draws r. The same run gives the same bytes.
func SVG(w io.Writer, r *result.Run) error {
	var plots []*plot.Plot
	for _, p := range panels() {
		drawn, err := p.draw(r)
		if err != nil {
			return err
		}
		if drawn != nil {
			plots = append(plots, drawn)
		}
	}
	if len(plots) == 0 {
		return ErrNothingToDraw
	}
	canvas := vgsvg.New(vg.Length(len(plots))*panelWidth, panelHeight)
	dc := draw.New(canvas)
	dc.SetColor(color.White) // readable on a dark page too
	dc.Fill(dc.Rectangle.Path())
	tiles := draw.Tiles{Rows: 1, Cols: len(plots), PadX: 12, PadTop: 10, PadBottom: 8, PadLeft: 10, PadRight: 10}
	for i, placed := range plot.Align([][]*plot.Plot{plots}, tiles, dc)[0] {
		plots[i].Draw(placed)
	}
	var picture bytes.Buffer
	if _, err := canvas.WriteTo(&picture); err != nil {
		return err
	}
	// Who reads it need not have the font that it was measured with; Arial is as wide.
	_, err := w.Write(bytes.ReplaceAll(picture.Bytes(), []byte("font-family:Liberation Sans;"), []byte("font-family:Liberation Sans,Arial,Helvetica,sans-serif;")))
	return err
}

// draw returns nil if r has nothing of the panel.
func (p panel) draw(r *result.Run) (*plot.Plot, error) {
	groups := slices.DeleteFunc(slices.Clone(p.groups), func(g group) bool { return len(r.Impls(g.c)) == 0 })
	if len(groups) == 0 {
		return nil, nil //nolint:nilnil // said above
	}
	drawn := plot.New()
	drawn.Title.Text = p.title
	drawn.Title.Padding = 8
	drawn.Y.Label.Text = p.axis
	drawn.Y.Tick.Marker = grouped{}
	drawn.Y.Min = 0
	drawn.Legend.Top, drawn.Legend.Left = true, true
	drawn.Legend.Padding = 2
	for i, b := range bars {
		values := make(plotter.Values, len(groups))
		measured := false
		for j, g := range groups {
			m, ok := r.Get(g.c.By(b.impl))
			values[j], measured = m.Median, measured || ok
		}
		if !measured {
			continue
		}
		chart, err := plotter.NewBarChart(values, barWidth)
		if err != nil {
			return nil, err
		}
		chart.Color, chart.LineStyle.Width = b.colour, 0
		chart.Offset = barWidth * vg.Length(2*i-len(bars)+1) / 2
		drawn.Add(chart)
		drawn.Legend.Add(b.title, chart)
	}
	var names []string
	for _, g := range groups {
		names = append(names, g.name)
	}
	drawn.NominalX(names...)
	for _, style := range []*draw.TextStyle{
		&drawn.Title.TextStyle, &drawn.X.Tick.Label, &drawn.Y.Tick.Label, &drawn.Y.Label.TextStyle, &drawn.Legend.TextStyle,
	} {
		style.Font.Variant = "Sans"
	}
	return drawn, nil
}

// grouped writes an axis in whole thousands: 120,000.
type grouped struct{}

// Ticks implements plot.Ticker.
func (grouped) Ticks(lowest, highest float64) []plot.Tick {
	ticks := plot.DefaultTicks{}.Ticks(lowest, highest)
	for i, t := range ticks {
		if t.Label != "" {
			ticks[i].Label = number(t.Value)
		}
	}
	return ticks
}
