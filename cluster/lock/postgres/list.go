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
		found = append(found, standing(queue, q.Holders))
	}
	return found, more, err
}

// Read reads the state of one lock in a schema, "" for the default one. Its Length is 0 if the lock is neither held nor
// waited for. Read needs no session. It blocks until PostgreSQL has answered, or ctx ends. Errors are PostgreSQL's.
func Read(ctx context.Context, db Lister, schema, name string) (lock.Standing, error) {
	queue, err := claims.Read(ctx, db, cmp.Or(schema, pgsession.DefaultSchema), prefix, name)
	return standing(queue, 0), err
}

// standing returns the state of a lock, with at most so many holders, or all if that is 0.
func standing(queue claims.Queue, holders int) lock.Standing {
	s := lock.Standing{Name: queue.Name, Holders: []lock.Holder{}, Length: len(queue.Entries),
		Shared: len(queue.Entries) > 0 && queue.Entries[0].Shared}
	for _, e := range queue.Entries {
		if e.Token != 0 && (holders == 0 || len(s.Holders) < holders) {
			s.Holders = append(s.Holders, lock.Holder{Owner: e.Owner, Token: e.Token})
		}
	}
	return s
}
