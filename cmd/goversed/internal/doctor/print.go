package doctor

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/goverse/goverse/cmd/goversed/internal/doctor/diagnosis"
)

type jsonReport struct {
	Worst    diagnosis.Severity  `json:"worst"`
	Findings []diagnosis.Finding `json:"findings"`
}

// Print writes one line per finding, with its remedy below, and the number of findings of each severity. With
// asJSON it writes one JSON value.
func Print(out io.Writer, all []diagnosis.Finding, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(out).Encode(jsonReport{diagnosis.Worst(all), all})
	}
	width, counts := 0, map[diagnosis.Severity]int{}
	for _, f := range all {
		width = max(width, len(f.Check))
		counts[f.Severity]++
	}
	for _, f := range all {
		if _, err := fmt.Fprintf(out, "%-7s  %-*s  %s\n", f.Severity, width, f.Check, f.Description); err != nil {
			return err
		}
		if f.Remedy == "" {
			continue
		}
		if _, err := fmt.Fprintf(out, "%-7s  %-*s  -> %s\n", "", width, "", f.Remedy); err != nil {
			return err
		}
	}
	var sum []string
	for _, s := range []diagnosis.Severity{diagnosis.Problem, diagnosis.Warning, diagnosis.Note, diagnosis.OK} {
		if n := counts[s]; n > 0 {
			name := s.String()
			if n > 1 && s != diagnosis.OK {
				name += "s"
			}
			sum = append(sum, fmt.Sprintf("%d %s", n, name))
		}
	}
	_, err := fmt.Fprintf(out, "\n%s\n", strings.Join(sum, ", "))
	return err
}
