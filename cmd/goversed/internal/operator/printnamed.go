package operator

import (
	"fmt"
	"io"
	"strconv"
	"strings"
)

// PrintElections writes a table of the named elections found under prefix.
func PrintElections(out io.Writer, prefix string, all []NamedElection, asJSON bool) error {
	switch {
	case asJSON:
		return printJSON(out, all)
	case len(all) == 0:
		_, err := fmt.Fprintf(out, "nobody stands in a named election under %s\n", prefix)
		return err
	}
	w := &table{out: out}
	w.row("ELECTION", "LEADER", "TOKEN", "NEXT")
	for _, e := range all {
		var next []string
		for _, c := range e.Candidates[1:] {
			next = append(next, c.shown())
		}
		w.row(shown(e.Name), e.Candidates[0].shown(), fmt.Sprint(e.Token), orDash(strings.Join(next, ", ")))
	}
	return w.flush()
}

func (c NamedCandidate) shown() string {
	switch {
	case !c.Member:
		return shown(c.Address) + " (not a Goverse node)"
	case c.Priority != 0:
		return fmt.Sprintf("%s (priority %d)", shown(c.Address), c.Priority)
	}
	return shown(c.Address)
}

// shown returns text written by users or other programs, quoted if it could be misread.
func shown(s string) string {
	if quoted := strconv.Quote(s); quoted != `"`+s+`"` || s == "" || strings.ContainsAny(s, " ,") {
		return quoted
	}
	return s
}
