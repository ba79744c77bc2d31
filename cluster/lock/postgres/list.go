package postgres

import (
	"cmp"
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/goverse/goverse/cluster/internal/pg/claims"
	"github.com/goverse/goverse/cluster/lock"
	"github.com/goverse/goverse/cluster/pgsession"
)

// Lister is a connection, a pool or a transaction.
type Lister interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// List reads the states of all locks in a schema, "" for the default one, that are held or waited for, in the order of
// their names; more reports whether others follow the last one. All are read at one instant. List needs no session. It
// blocks until PostgreSQL has answered, or ctx ends. Errors are PostgreSQL's.
func List(ctx context.Context, db Lister, schema string, q lock.Query) (found []lock.Standing, more bool, err error) {
	queues, more, err := claims.List(ctx, db, cmp.Or(schema, pgsession.DefaultSchema), prefix, q.After, q.Limit)
	for _, queue := range queues {
		s := lock.Standing{Name: queue.Name, Holders: []lock.Holder{}, Length: len(queue.Entries),
			Shared: queue.Entries[0].Shared}
		for _, e := range queue.Entries {
			if e.Token != 0 && (q.Holders == 0 || len(s.Holders) < q.Holders) {
				s.Holders = append(s.Holders, lock.Holder{Owner: e.Owner, Token: e.Token})
			}
		}
		found = append(found, s)
	}
	return found, more, err
}
