package claims

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Queue lists the claims of one name, in order.
type Queue struct {
	Name    string
	Entries []Entry
}

// Lister is a connection, a pool or a transaction.
type Lister interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// List reads the queues of the names that begin with prefix and come after the name after, in the order of the names as
// stored: at most limit of them, or all if limit is 0. more reports whether others follow. Claims of sessions that have
// ended are left out. The prefix must be plain text.
func List(ctx context.Context, db Lister, schema, prefix, after string, limit int) (found []Queue, more bool,
	err error) {
	const text = `SELECT c.name, c.session, c.seq, coalesce(c.token, 0), c.shared, s.owner
		FROM {{schema}}.claim c JOIN {{schema}}.session s ON s.id = c.session
		WHERE c.name IN (SELECT DISTINCT d.name FROM {{schema}}.claim d JOIN {{schema}}.session e ON e.id = d.session
			WHERE starts_with(d.name, $1) AND d.name > $2 ORDER BY d.name LIMIT $3)
		ORDER BY c.name, c.place`
	var atMost *int
	if limit > 0 {
		one := limit + 1
		atMost = &one
	}
	rows, err := db.Query(ctx, strings.ReplaceAll(text, "{{schema}}", pgx.Identifier{schema}.Sanitize()), prefix,
		prefix+EscapeName(after), atMost)
	if err != nil {
		return nil, false, fmt.Errorf("list the queues in PostgreSQL: %w", err)
	}
	var stored, last string
	var e Entry
	_, err = pgx.ForEachRow(rows, []any{&stored, &e.Session, &e.Seq, &e.Token, &e.Shared, &e.Owner}, func() error {
		if stored != last || len(found) == 0 {
			found, last = append(found, Queue{Name: UnescapeName(strings.TrimPrefix(stored, prefix))}), stored
		}
		q := &found[len(found)-1]
		q.Entries = append(q.Entries, e)
		return nil
	})
	if err != nil {
		return nil, false, fmt.Errorf("list the queues in PostgreSQL: %w", err)
	}
	if limit > 0 && len(found) > limit {
		return found[:limit], true, nil
	}
	return found, false, nil
}

// UnescapeName returns the name that EscapeName has stored as text.
func UnescapeName(stored string) string {
	var b strings.Builder
	for i := 0; i < len(stored); i++ {
		if stored[i] == '%' && i+2 < len(stored) {
			if v, err := strconv.ParseUint(stored[i+1:i+3], 16, 8); err == nil {
				b.WriteByte(byte(v))
				i += 2
				continue
			}
		}
		b.WriteByte(stored[i])
	}
	return b.String()
}
