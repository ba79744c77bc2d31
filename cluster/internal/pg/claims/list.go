package claims

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/goverse/goverse/cluster/internal/pg"
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
	const names = `SELECT DISTINCT d.name FROM {{schema}}.claim d JOIN {{schema}}.session e ON e.id = d.session
		WHERE starts_with(d.name, $1) AND d.name > $2 ORDER BY d.name LIMIT $3`
	var atMost *int
	if limit > 0 {
		one := limit + 1
		atMost = &one
	}
	if found, err = readQueues(ctx, db, schema, prefix, names, prefix, prefix+EscapeName(after), atMost); err != nil {
		return nil, false, err
	}
	if limit > 0 && len(found) > limit {
		return found[:limit], true, nil
	}
	return found, false, nil
}

// Read reads the queue of prefix and name. It has no entries if the name is not claimed.
func Read(ctx context.Context, db Lister, schema, prefix, name string) (Queue, error) {
	found, err := readQueues(ctx, db, schema, prefix, "SELECT $1::text", prefix+EscapeName(name))
	if err != nil || len(found) == 0 {
		return Queue{Name: name}, err
	}
	return found[0], nil
}

// readQueues reads the queues of the names that a query selects. It removes the prefix from the names.
func readQueues(ctx context.Context, db Lister, schema, prefix, names string, args ...any) (found []Queue, err error) {
	rows, err := db.Query(ctx, pg.InSchema(schema, selectEntries+"WHERE c.name IN ("+names+") ORDER BY c.name, c.place"),
		args...)
	if err != nil {
		return nil, fmt.Errorf("read the queues in PostgreSQL: %w", err)
	}
	last := ""
	err = readEntries(rows, func(stored string, e Entry) {
		if stored != last || len(found) == 0 {
			found, last = append(found, Queue{Name: UnescapeName(strings.TrimPrefix(stored, prefix))}), stored
		}
		q := &found[len(found)-1]
		q.Entries = append(q.Entries, e)
	})
	if err != nil {
		return nil, fmt.Errorf("read the queues in PostgreSQL: %w", err)
	}
	return found, nil
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
