package postgres

import (
	"cmp"
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/goverse/goverse/cluster/internal/pg/claims"
	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/cluster/pgsession"
)

// Lister is a connection, a pool or a transaction.
type Lister interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// List reads the states of all elections in a schema, "" for the default one, that have candidates, in the order of
// their names; more reports whether others follow the last one. All are read at one instant. List needs no session. It
// blocks until PostgreSQL has answered, or ctx ends. Errors are PostgreSQL's.
func List(ctx context.Context, db Lister, schema string, q leaderelection.Query) (found []leaderelection.Standing,
	more bool, err error) {
	queues, more, err := claims.List(ctx, db, cmp.Or(schema, pgsession.DefaultSchema), prefix, q.After, q.Limit)
	for _, queue := range queues {
		found = append(found, standing(queue, q.Candidates))
	}
	return found, more, err
}

// Read reads the state of one election in a schema, "" for the default one. Its Length is 0 if the election has no
// candidates. Read needs no session. It blocks until PostgreSQL has answered, or ctx ends. Errors are PostgreSQL's.
func Read(ctx context.Context, db Lister, schema, name string) (leaderelection.Standing, error) {
	queue, err := claims.Read(ctx, db, cmp.Or(schema, pgsession.DefaultSchema), prefix, name)
	return standing(queue, 0), err
}

// standing returns the state of an election, with at most so many candidates, or all if that is 0.
func standing(queue claims.Queue, candidates int) leaderelection.Standing {
	s := leaderelection.Standing{Name: queue.Name, Leader: leaderOf(queue.Entries), Candidates: []leaderelection.Standby{},
		Length: len(queue.Entries)}
	for _, e := range queue.Entries {
		if candidates == 0 || len(s.Candidates) < candidates {
			s.Candidates = append(s.Candidates, leaderelection.Standby{Address: e.Owner, Member: true})
		}
	}
	return s
}

// leaderOf returns the leader of a queue, the zero Leader if no candidate leads yet.
func leaderOf(entries []claims.Entry) leaderelection.Leader {
	if len(entries) == 0 || entries[0].Token == 0 {
		return leaderelection.Leader{}
	}
	return leaderelection.Leader{Address: entries[0].Owner, Token: entries[0].Token, Mode: leaderelection.ModeElection,
		Member: true, Lease: entries[0].Session}
}
