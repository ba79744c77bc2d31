// Package report stores the results of benchmarks: raw samples, tables, plots, and the generated part of the
// documentation.
//
// # What is not promised
//
// The raw samples are not complete: they are capped per file, see [MaxRows]. The tables are computed from all
// samples.
package report

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/goverse/goverse/bench/internal/sample"
)

// Verdict is the judgement of a row.
type Verdict string

// The verdicts.
const (
	Met     Verdict = "met"
	Missed  Verdict = "**missed**"
	Context Verdict = "" // no target: a floor or a peer
)

// Judge returns Met if ok is true, and Missed otherwise.
func Judge(ok bool) Verdict {
	if ok {
		return Met
	}
	return Missed
}

// Row is one line of a target's table.
type Row struct {
	What     string
	Wanted   string // "" for a floor or a peer
	Measured string
	Verdict  Verdict
}

// Plot is one plot: the distributions of some series of a result.
type Plot struct {
	// Name is the file name without its extension.
	Name   string
	Title  string
	Series []*sample.Series
}

// Result holds the results of one benchmark.
type Result struct {
	Target  string // "T2"
	Title   string
	When    time.Time
	Command string
	Quick   bool
	Machine Machine
	Rows    []Row
	Notes   []string

	Series []*sample.Series `json:"-"`
	Plots  []Plot           `json:"-"`
	Curves []Curve          `json:"-"`
	// Pictures names the files that Save wrote for Curves and Plots.
	Pictures []string
}

// Row appends one row to the table.
func (r *Result) Row(what, wanted, measured string, v Verdict) {
	r.Rows = append(r.Rows, Row{What: what, Wanted: wanted, Measured: measured, Verdict: v})
}

// Note appends a sentence below the table.
func (r *Result) Note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

// Keep appends series to the raw samples.
func (r *Result) Keep(series ...*sample.Series) { r.Series = append(r.Series, series...) }

// Save writes the result, its samples and its plots into dir.
func (r *Result) Save(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := writeCSV(filepath.Join(dir, r.Target+".csv"), r.Series); err != nil {
		return err
	}
	r.Pictures = nil
	for _, c := range r.Curves {
		if err := c.save(filepath.Join(dir, c.Name+".svg")); err != nil {
			return fmt.Errorf("plot %s: %w", c.Name, err)
		}
		r.Pictures = append(r.Pictures, c.Name+".svg")
	}
	for _, p := range r.Plots {
		if err := p.save(filepath.Join(dir, p.Name+".svg")); err != nil {
			return fmt.Errorf("plot %s: %w", p.Name, err)
		}
		r.Pictures = append(r.Pictures, p.Name+".svg")
	}
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, r.Target+".json"), append(data, '\n'), 0o644)
}

// Load reads the result of target from dir. It returns nil if there is none.
func Load(dir, target string) (*Result, error) {
	data, err := os.ReadFile(filepath.Join(dir, target+".json"))
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r := &Result{}
	if err := json.Unmarshal(data, r); err != nil {
		return nil, fmt.Errorf("%s in %s: %w", target, dir, err)
	}
	return r, nil
}
