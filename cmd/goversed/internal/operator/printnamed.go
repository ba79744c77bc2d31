package operator

import (
	"fmt"
	"io"
	"strconv"
	"strings"
)

// PrintElections writes a table of the named elections found under prefix.
func PrintElections(out io.Writer, prefix string, all List[NamedElection], asJSON bool) error {
	switch {
	case asJSON:
		return printJSON(out, all)
	case len(all.Items) == 0 && !all.More:
		_, err := fmt.Fprintf(out, "no named election under %s has candidates\n", prefix)
		return err
	}
	w := &tableWriter{out: out}
	w.writeRow("ELECTION", "LEADER", "TOKEN", "NEXT")
	for _, e := range all.Items {
		var next []string
		for _, c := range e.Candidates[1:] {
			next = append(next, c.describe())
		}
		w.writeRow(quoteIfUnclear(e.Name), e.Candidates[0].describe(), fmt.Sprint(e.Token), orDash(strings.Join(next, ", ")))
	}
	all.writeRest(w)
	return w.flush()
}

func (c NamedCandidate) describe() string {
	switch {
	case !c.Member:
		return quoteIfUnclear(c.Address) + " (not a Goverse node)"
	case c.Priority != 0:
		return fmt.Sprintf("%s (priority %d)", quoteIfUnclear(c.Address), c.Priority)
	}
	return quoteIfUnclear(c.Address)
}

// quoteIfUnclear returns text written by users or other programs, quoted if it could be misread.
func quoteIfUnclear(s string) string {
	if quoted := strconv.Quote(s); quoted != `"`+s+`"` || s == "" || strings.ContainsAny(s, " ,") {
		return quoted
	}
	return s
}
