package operator

import (
	"fmt"
	"io"
	"strconv"
	"strings"
)

// PrintElections writes a table of the named elections. Where says where they were looked for, as in "under /goverse".
func PrintElections(out io.Writer, where string, all List[NamedElection], asJSON bool) error {
	switch {
	case asJSON:
		return printJSON(out, all)
	case len(all.Items) == 0 && !all.More:
		_, err := fmt.Fprintf(out, "no named election %s has candidates\n", where)
		return err
	}
	w := &tableWriter{out: out}
	w.writeRow("ELECTION", "LEADER", "TOKEN", "NEXT")
	for _, e := range all.Items {
		var all []string
		for _, c := range e.Candidates {
			all = append(all, c.describe())
		}
		if e.Token == 0 { // in PostgreSQL, the first one may not lead yet
			all = append([]string{"-"}, all...)
		}
		w.writeRow(quoteIfUnclear(e.Name), all[0], numberOrDash(int(e.Token)), orDash(strings.Join(all[1:], ", ")))
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
