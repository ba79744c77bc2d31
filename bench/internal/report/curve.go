package report

import (
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Curve is one plot of lines with both axes logarithmic.
type Curve struct {
	// Name is the file name without its extension.
	Name  string
	Title string
	// X and Y are the axes' labels.
	X, Y  string
	Lines []Line
}

// Line is one line of a Curve.
type Line struct {
	// Name is the label in the legend.
	Name   string
	Points []Point
}

// Point is one measurement. Points with a coordinate that is not positive are left out, because the axes are
// logarithmic.
type Point struct{ X, Y float64 }

func (c Curve) save(path string) error {
	pl := plot.New()
	pl.Title.Text, pl.X.Label.Text, pl.Y.Label.Text = c.Title, c.X, c.Y
	pl.X.Scale, pl.Y.Scale = plot.LogScale{}, plot.LogScale{}
	pl.X.Tick.Marker, pl.Y.Tick.Marker = plot.LogTicks{Prec: -1}, plot.LogTicks{Prec: -1}
	pl.Legend.Left, pl.Legend.Top = true, true
	pl.Add(plotter.NewGrid())
	for i, l := range c.Lines {
		var xys plotter.XYs
		for _, p := range l.Points {
			if p.X > 0 && p.Y > 0 {
				xys = append(xys, plotter.XY{X: p.X, Y: p.Y})
			}
		}
		if len(xys) == 0 {
			continue
		}
		line, points, err := plotter.NewLinePoints(xys)
		if err != nil {
			return err
		}
		colour := colours[i%len(colours)]
		line.Color, line.Width = colour, vg.Points(1.5)
		points.Color, points.Shape, points.Radius = colour, draw.CircleGlyph{}, vg.Points(2.5)
		pl.Add(line, points)
		pl.Legend.Add(l.Name, line, points)
	}
	pl.X.Min, pl.X.Max = decades(pl.X.Min, pl.X.Max)
	pl.Y.Min, pl.Y.Max = decades(pl.Y.Min, pl.Y.Max)
	return pl.Save(16*vg.Centimeter, 9*vg.Centimeter, path)
}

// decades widens a range to whole powers of ten, at least one, because the axes label those.
func decades(low, high float64) (float64, float64) {
	from, to := math.Floor(math.Log10(low)), math.Ceil(math.Log10(high))
	return math.Pow(10, from), math.Pow(10, max(to, from+1))
}
