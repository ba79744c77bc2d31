package report

import (
	"encoding/csv"
	"os"
	"strconv"

	"github.com/goverse/goverse/bench/internal/sample"
)

// MaxRows limits the samples written per series; the first ones are written.
const MaxRows = 1000

func writeCSV(path string, series []*sample.Series) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := f.Close(); err == nil {
			err = cerr
		}
	}()
	w := csv.NewWriter(f)
	rows := [][]string{{"series", "unit", "n", "value"}}
	for _, s := range series {
		for i, v := range s.Values[:min(len(s.Values), MaxRows)] {
			rows = append(rows, []string{s.Name, s.Unit, strconv.Itoa(i), strconv.FormatFloat(v, 'f', 4, 64)})
		}
	}
	return w.WriteAll(rows)
}
