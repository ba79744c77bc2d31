package pgnode

import (
	"context"
	"fmt"

	"github.com/goverse/goverse/cluster/event"
	"github.com/goverse/goverse/cluster/internal/pg/claims"
	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/cluster/lock"
	lockpg "github.com/goverse/goverse/cluster/lock/postgres"
)

// EventLog returns the cluster's event log, as Events does, for package httpapi.
func (n *Node) EventLog() event.Log { return &n.events }

// ListElections reads the elections in the schema that have candidates, in the order of their names; more reports
// whether others follow. It blocks until PostgreSQL has answered, or ctx ends. Errors are PostgreSQL's, ctx's and
// ErrStopped.
func (n *Node) ListElections(ctx context.Context, q leaderelection.Query) (found []leaderelection.Standing, more bool,
	err error) {
	queues, more, err := n.listQueues(ctx, q.After, q.Limit)
	for _, queue := range queues {
		s := leaderelection.Standing{Name: queue.Name, Length: len(queue.Entries)}
		for i, e := range queue.Entries {
			if i == 0 && e.Token != 0 {
				s.Leader = leaderelection.Leader{Address: e.Owner, Token: e.Token, Mode: leaderelection.ModeElection, Member: true,
					Lease: e.Session}
			}
			if q.Candidates == 0 || i < q.Candidates {
				s.Candidates = append(s.Candidates, leaderelection.Standby{Address: e.Owner, Member: true})
			}
		}
		found = append(found, s)
	}
	return found, more, err
}

// listing is the answer to a request for a list.
type listing[T any] struct {
	found []T
	more  bool
}

// readList reads a list on the node's connection.
func readList[T any](ctx context.Context, n *Node, what string,
	read func(ctx context.Context, db Querier) ([]T, bool, error)) ([]T, bool, error) {
	answer := make(chan listing[T], 1) // it may be read after ctx has ended
	err := n.do(ctx, func(ctx context.Context, db Querier) error {
		found, more, err := read(ctx, db)
		answer <- listing[T]{found, more}
		return err
	})
	if err != nil {
		return nil, false, fmt.Errorf("read the %s: %w", what, err)
	}
	l := <-answer
	return l.found, l.more, nil
}

func (n *Node) listQueues(ctx context.Context, after string, limit int) ([]claims.Queue, bool, error) {
	return readList(ctx, n, "elections", func(ctx context.Context, db Querier) ([]claims.Queue, bool, error) {
		return claims.List(ctx, db, n.keeper.Schema(), electionPrefix, after, limit)
	})
}

// ListLocks reads the locks in the schema that are held or waited for, in the order of their names; more reports
// whether others follow. It blocks until PostgreSQL has answered, or ctx ends. Errors are PostgreSQL's, ctx's and
// ErrStopped.
func (n *Node) ListLocks(ctx context.Context, q lock.Query) (found []lock.Standing, more bool, err error) {
	return readList(ctx, n, "locks", func(ctx context.Context, db Querier) ([]lock.Standing, bool, error) {
		return lockpg.List(ctx, db, n.keeper.Schema(), q)
	})
}
