// Command soakplot plots the measurements of a soak test:
//
//	go test ./integration -run TestSoak -soak.for 1h -soak.out soak.csv -timeout 2h
//	cd bench && go run ./cmd/soakplot -in ../soak.csv -out results/soak.png
package main

import (
	"encoding/csv"
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
)

func main() {
	in := flag.String("in", "soak.csv", "what -soak.out wrote")
	out := flag.String("out", "soak.png", "the picture")
	flag.Parse()
	if err := run(*in, *out); err != nil {
		fmt.Fprintln(os.Stderr, "soakplot:", err)
		os.Exit(1)
	}
}

// panels lists the plots from top to bottom, each with its column in the file and its title.
var panels = []struct {
	column, title string
	unit          float64
}{
	{"process_resident_memory_bytes", "resident memory (MB)", 1e6},
	{"go_goroutines", "goroutines", 1},
	{"process_open_fds", "open files", 1},
}

func run(in, out string) error {
	f, err := os.Open(in)
	if err != nil {
		return err
	}
	defer f.Close() // only read
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil || len(rows) < 3 {
		return errors.Join(err, fmt.Errorf("%s: no samples", in))
	}
	var column [][]*plot.Plot
	for _, panel := range panels {
		pl, err := drawPanel(rows, panel.column, panel.title, panel.unit)
		if err != nil {
			return err
		}
		column = append(column, []*plot.Plot{pl})
	}
	img := vgimg.New(8*vg.Inch, 7*vg.Inch)
	canvases := plot.Align(column, draw.Tiles{Rows: len(panels), Cols: 1, PadY: vg.Points(8)}, draw.New(img))
	for i := range panels {
		column[i][0].Draw(canvases[i][0])
	}
	w, err := os.Create(out)
	if err != nil {
		return err
	}
	if _, err := (vgimg.PngCanvas{Canvas: img}).WriteTo(w); err != nil {
		return err
	}
	return w.Close()
}

// drawPanel plots one column over the first one, which is a time in seconds.
func drawPanel(rows [][]string, column, title string, unit float64) (*plot.Plot, error) {
	at := -1
	for i, name := range rows[0] {
		if name == column {
			at = i
		}
	}
	if at < 1 {
		return nil, fmt.Errorf("there is no column %s", column)
	}
	var line plotter.XYs
	for _, row := range rows[1:] {
		x, err1 := strconv.ParseFloat(row[0], 64)
		y, err2 := strconv.ParseFloat(row[at], 64)
		if err := errors.Join(err1, err2); err != nil {
			return nil, err
		}
		line = append(line, plotter.XY{X: x / 60, Y: y / unit})
	}
	pl := plot.New()
	pl.Y.Label.Text, pl.X.Label.Text, pl.Y.Min = title, "minutes", 0
	drawn, err := plotter.NewLine(line)
	if err != nil {
		return nil, err
	}
	pl.Add(plotter.NewGrid(), drawn)
	pl.Y.Min = 0
	return pl, nil
}
