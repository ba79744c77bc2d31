package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/goverse/goverse/cmd/goversed/internal/operator"
	"github.com/goverse/goverse/internal/state"
)

// listTimeout limits one step of a list.
const listTimeout = 15 * time.Second

// listedKind is a kind of named things that goversed lists: goversed NOUNs and goversed NOUNs list.
type listedKind[T any] struct {
	noun string // effect, election or lock
	read func(o *operator.Operator, ctx context.Context, timeout time.Duration, q operator.ListQuery) (
		operator.List[T], error)
	// readPostgres reads those in PostgreSQL; nil if there are none.
	readPostgres func(p *operator.Postgres, ctx context.Context, timeout time.Duration, q operator.ListQuery) (
		operator.List[T], error)
	show func(out io.Writer, where string, all operator.List[T], json bool) error
}

// newList returns the command base, which lists things of that kind.
func (k listedKind[T]) newList(base *cobra.Command) *cobra.Command {
	var q operator.ListQuery
	prepare := func(f *operatorFlags) (operatorAction, error) {
		query, err := k.query(q)
		if err != nil {
			return nil, err
		}
		return showList(f, func(ctx context.Context, o *operator.Operator) (operator.List[T], error) {
			return k.read(o, ctx, f.timeout, query)
		}, func(out io.Writer, all operator.List[T], json bool) error {
			return k.show(out, "under "+f.etcd.prefix, all, json)
		}), nil
	}
	if k.readPostgres == nil {
		base = newOperator(base, listTimeout, prepare)
	} else {
		base = newReader(base, listTimeout, prepare, func(f *operatorFlags) (postgresAction, error) {
			query, err := k.query(q)
			if err != nil {
				return nil, err
			}
			return showList(f, func(ctx context.Context, p *operator.Postgres) (operator.List[T], error) {
				return k.readPostgres(p, ctx, f.timeout, query)
			}, func(out io.Writer, all operator.List[T], json bool) error {
				return k.show(out, "in the schema "+f.postgres.schema, all, json)
			}), nil
		})
	}
	registerList(base.Flags(), &q)
	return base
}

// query returns the query that the flags describe.
func (k listedKind[T]) query(q operator.ListQuery) (operator.ListQuery, error) {
	switch {
	case q.Limit < 0:
		return q, fmt.Errorf("--limit %d: give a number from 1 up, or 0 for all", q.Limit)
	case q.After == "":
		return q, nil
	}
	var err error
	q.After, err = parseName(k.noun, "--after", q.After)
	return q, err
}

// registerList adds the flags of a list to fs.
func registerList(fs *pflag.FlagSet, q *operator.ListQuery) {
	fs.Lookup("timeout").Usage = "limit for the whole list; without this flag, the default limits each request"
	fs.StringVar(&q.NamePrefix, "name-prefix", "", "list only names that begin with this `text`")
	fs.IntVar(&q.Limit, "limit", 1000, "limit for the number of entries; 0 means all")
	fs.StringVar(&q.After, "after", "", "continue after this `name`, which an incomplete list shows at its end")
}

// newListVerb returns the verb list below parent, which has the same flags and help.
func (k listedKind[T]) newListVerb(parent *cobra.Command) *cobra.Command {
	return k.newList(&cobra.Command{Use: "list", Short: "List the " + k.noun + "s; the same as goversed " + k.noun + "s",
		Long: parent.Long, Example: parent.Example})
}

// listHelp is the part of the help that all lists share.
const listHelp = `
Without --timeout the command waits for the whole list, as long as that takes. With --timeout it
shows the entries read until then, and where to continue. With -o json the list is
{"items": [...], "more": false}. An incomplete list has "more": true, and "next" has the name to
give as --after.

A name that could be misread is shown in quotes. A NAME that begins with " is read as a quoted name.`

// parseName parses the name of a kind of things, plain or quoted as the commands show it. What names the argument in
// errors.
func parseName(noun, what, s string) (string, error) {
	name, err := parseWord(what, s, "goversed "+noun+"s")
	if err != nil {
		return "", err
	}
	if err := state.CheckName(noun, name); err != nil {
		return "", fmt.Errorf("%s: %w", what, err)
	}
	return name, nil
}

// parseWord parses a word, plain or quoted as the command shower shows it.
func parseWord(what, s, shower string) (string, error) {
	if !strings.HasPrefix(s, `"`) {
		return s, nil
	}
	word, err := strconv.Unquote(s)
	if err != nil {
		return "", fmt.Errorf("%s %s: a word that begins with a quotation mark must be quoted as %s shows it", what, s,
			shower)
	}
	return word, nil
}
