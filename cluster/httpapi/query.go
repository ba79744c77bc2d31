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
	maxLimit     = 1000
	// maxNamed limits the candidates or holders listed for each item.
	maxNamed = 20
	// maxAfter is the maximum length of a name in bytes.
	maxAfter = 512
)

// listQuery holds the parameters of a request for a list.
type listQuery struct {
	limit   int
	after   string // "" means from the beginning
	unknown bool   // only effects with an unknown outcome
}

// queryParameter reads the value of one parameter of a query. Its error names valid values.
type queryParameter func(value string) error

// readQuery reads a query in which each known parameter may occur once; example shows a complete query. It
// refuses unknown parameters, because a list without the requested filter would be wrong. It answers a request
// with a bad query.
func readQuery(w http.ResponseWriter, r *http.Request, example string, known map[string]queryParameter) (ok bool) {
	bad := func(format string, args ...any) bool {
		writePlainProblem(w, http.StatusBadRequest, fmt.Sprintf(format, args...))
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

// limitParameter reads ?limit=N.
func limitParameter(limit *int) queryParameter {
	*limit = defaultLimit
	return func(value string) (err error) {
		if *limit, err = strconv.Atoi(value); err != nil || *limit < 1 || *limit > maxLimit {
			return fmt.Errorf("limit=%q: give a number from 1 to %d", value, maxLimit)
		}
		return nil
	}
}

// readListQuery reads ?limit=N&after=NAME and the parameters in more. It answers a request with a bad query.
func readListQuery(w http.ResponseWriter, r *http.Request, q *listQuery, more map[string]queryParameter) (ok bool) {
	known := map[string]queryParameter{"limit": limitParameter(&q.limit), "after": func(value string) error {
		if value == "" || len(value) > maxAfter {
			return fmt.Errorf("after has %d bytes: give what next was, which is from 1 to %d", len(value), maxAfter)
		}
		q.after = value
		return nil
	}}
	maps.Copy(known, more)
	return readQuery(w, r, "?limit=N&after=NAME", known)
}

// cacheKey returns the cache's key for this query of a list.
func (q listQuery) cacheKey(what string) string {
	return fmt.Sprintf("%s %d %t %s", what, q.limit, q.unknown, q.after)
}

// afterParam returns the value of ?after= for the rest of a list: the last name, percent-encoded because it may have
// any bytes.
func afterParam(last string) string { return url.QueryEscape(last) }
