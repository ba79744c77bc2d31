package report

import (
	"fmt"
	"image/color"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"github.com/goverse/goverse/bench/internal/sample"
)

// colours can be distinguished with any colour vision.
var colours = []color.Color{
	color.RGBA{R: 0x00, G: 0x72, B: 0xb2, A: 0xff}, color.RGBA{R: 0xd5, G: 0x5e, A: 0xff},
	color.RGBA{G: 0x9e, B: 0x73, A: 0xff}, color.RGBA{R: 0xcc, G: 0x79, B: 0xa7, A: 0xff},
	color.RGBA{R: 0xe6, G: 0x9f, A: 0xff},
}

// maxPoints limits the points of one line.
const maxPoints = 300

// save draws the cumulative distribution of each series.
func (p Plot) save(path string) error {
	pl := plot.New()
	pl.Title.Text = p.Title
	pl.Y.Label.Text = "share of samples"
	pl.Y.Min, pl.Y.Max = 0, 1
	pl.X.Scale = plot.LogScale{}
	pl.X.Tick.Marker = plot.LogTicks{Prec: -1}
	pl.Legend.Left, pl.Legend.Top = true, true
	pl.Add(plotter.NewGrid())
	for i, s := range p.Series {
		if len(s.Values) == 0 {
			return fmt.Errorf("series %q is empty", s.Name)
		}
		pl.X.Label.Text = s.Unit + ", logarithmic"
		line, err := plotter.NewLine(distribution(s))
		if err != nil {
			return err
		}
		line.Color, line.Width = colours[i%len(colours)], vg.Points(1.5)
		pl.Add(line)
		pl.Legend.Add(s.Name, line)
	}
	return pl.Save(16*vg.Centimeter, 9*vg.Centimeter, path)
}

func distribution(s *sample.Series) plotter.XYs {
	v := slices.Sorted(slices.Values(s.Values))
	step := max(1, len(v)/maxPoints)
	var out plotter.XYs
	for i := 0; i < len(v); i += step {
		out = append(out, plotter.XY{X: max(v[i], 1e-6), Y: float64(i+1) / float64(len(v))})
	}
	return append(out, plotter.XY{X: max(v[len(v)-1], 1e-6), Y: 1})
}
