package httpapi

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/goverse/goverse/internal/oneline"
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

// readList reads ?limit=N&after=NAME and, if it may be there, ?unknown=true. What it does not know it refuses: a list
// that is not filtered as it was asked to be would be a wrong answer. It answers where something is wrong.
func readList(w http.ResponseWriter, r *http.Request, more ...string) (q listQuery, ok bool) {
	bad := func(format string, args ...any) (listQuery, bool) {
		writeError(w, http.StatusBadRequest, fmt.Sprintf(format, args...))
		return listQuery{}, false
	}
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return bad("write the query as ?limit=N&after=NAME, percent-encoded: %s", oneline.Of(err))
	}
	known := append([]string{"limit", "after"}, more...)
	q = listQuery{limit: defaultLimit}
	for name, all := range values {
		value := all[0]
		switch {
		case !slices.Contains(known, name):
			return bad("there is no parameter %q here; there are %q", name, known)
		case len(all) > 1:
			return bad("the parameter %s is there %d times: give it once", name, len(all))
		case name == "limit":
			q.limit, err = strconv.Atoi(value)
			if err != nil || q.limit < 1 || q.limit > mostListed {
				return bad("limit=%q: give a number from 1 to %d", value, mostListed)
			}
		case name == "after":
			if value == "" || len(value) > maxAfter {
				return bad("after has %d bytes: give what next was, which is from 1 to %d", len(value), maxAfter)
			}
			q.after = value
		case name == "unknown":
			if q.unknown, err = strconv.ParseBool(value); err != nil {
				return bad("unknown=%q: give true or false", value)
			}
		}
	}
	return q, true
}

// question distinguishes what was asked for from everything else.
func (q listQuery) question(what string) string {
	return fmt.Sprintf("%s %d %t %s", what, q.limit, q.unknown, q.after)
}

// next is what follows ?after= for the rest of a list: the last name, percent-encoded, so that any bytes pass.
func next(last string) string { return url.QueryEscape(last) }
