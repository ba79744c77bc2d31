package postgres

import (
	"context"
	"fmt"

	"github.com/goverse/goverse/cluster/internal/pg"
	"github.com/goverse/goverse/cluster/internal/pg/claims"
	"github.com/goverse/goverse/cluster/once"
	"github.com/goverse/goverse/internal/lifecycle"
	"github.com/goverse/goverse/internal/state"
)

// Look implements [once.Registry].
func (e *Effects) Look(ctx context.Context, name string) (once.Standing, error) {
	if err := state.CheckName("effect", name); err != nil {
		return once.Standing{}, err
	}
	m, err := e.readMark(ctx, name)
	if err == nil && m.State == "" {
		err = fmt.Errorf("effect %q: %w", name, once.ErrNoMark)
	}
	return m, err
}

// List implements [once.Registry], in one statement. Names are in the order of their bytes, where bytes that are not
// UTF-8, NUL and % count as %.
func (e *Effects) List(ctx context.Context, q once.Query) (found []once.Standing, more bool, err error) {
	sql, limit := e.sql.list, (*int)(nil)
	if q.Unknown {
		sql = e.sql.listUnknown
	}
	if q.Limit > 0 {
		n := q.Limit + 1
		limit = &n
	}
	err = e.db.Read(ctx, func(db pg.Querier) error {
		found = nil
		rows, err := db.(claims.Lister).Query(ctx, sql, claims.EscapeName(q.After), limit)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			m, err := scanMark(rows)
			if err != nil {
				return err
			}
			found = append(found, m)
		}
		return rows.Err()
	})
	if err != nil {
		after := ""
		if len(found) > 0 {
			after = found[len(found)-1].Name
		}
		return lifecycle.Unfinished(ctx, found, after, fmt.Errorf("read the marks of effects: %w", withHint(err)))
	}
	if q.Limit > 0 && len(found) > q.Limit {
		return found[:q.Limit], true, nil
	}
	return found, false, nil
}
