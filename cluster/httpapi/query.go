package httpapi

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/goverse/goverse/internal/logs/logtext"
)

const (
	defaultLimit = 100
	mostListed   = 1000
	// mostNamed is how many candidates or holders are named of each thing in a list.
	mostNamed = 20
	// maxAfter is as long as a name may be, which is in bytes.
	maxAfter = 512
)

// listQuery is what a list was asked for.
type listQuery struct {
	limit   int
	after   string // "" for the beginning
	unknown bool   // of effects
}

// parameter reads the value of one parameter of a query. Its error says what to give instead.
type parameter func(value string) error

// readQuery reads a query of which each parameter may be there once; example is a whole one. What it does not know it
// refuses: a list that is not filtered as it was asked to be would be a wrong answer. It answers where something is
// wrong.
func readQuery(w http.ResponseWriter, r *http.Request, example string, known map[string]parameter) (ok bool) {
	bad := func(format string, args ...any) bool {
		writeError(w, http.StatusBadRequest, fmt.Sprintf(format, args...))
		return false
	}
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return bad("write the query as %s, percent-encoded: %s", example, logtext.OneLine(err))
	}
	for name, all := range values {
		read, there := known[name]
		switch {
		case !there:
			return bad("there is no parameter %q here; there are %q", name, slices.Sorted(maps.Keys(known)))
		case len(all) > 1:
			return bad("the parameter %s is there %d times: give it once", name, len(all))
		}
		if err := read(all[0]); err != nil {
			return bad("%s", err)
		}
	}
	return true
}

// limitOf reads ?limit=N.
func limitOf(limit *int) parameter {
	*limit = defaultLimit
	return func(value string) (err error) {
		if *limit, err = strconv.Atoi(value); err != nil || *limit < 1 || *limit > mostListed {
			return fmt.Errorf("limit=%q: give a number from 1 to %d", value, mostListed)
		}
		return nil
	}
}

// readList reads ?limit=N&after=NAME and what more there is. It answers where something is wrong.
func readList(w http.ResponseWriter, r *http.Request, q *listQuery, more map[string]parameter) (ok bool) {
	known := map[string]parameter{"limit": limitOf(&q.limit), "after": func(value string) error {
		if value == "" || len(value) > maxAfter {
			return fmt.Errorf("after has %d bytes: give what next was, which is from 1 to %d", len(value), maxAfter)
		}
		q.after = value
		return nil
	}}
	maps.Copy(known, more)
	return readQuery(w, r, "?limit=N&after=NAME", known)
}

// question distinguishes what was asked for from everything else.
func (q listQuery) question(what string) string {
	return fmt.Sprintf("%s %d %t %s", what, q.limit, q.unknown, q.after)
}

// next is what follows ?after= for the rest of a list: the last name, percent-encoded, so that any bytes pass.
func next(last string) string { return url.QueryEscape(last) }
