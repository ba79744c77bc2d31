package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/goverse/goverse/cluster/processor"
)

// statements holds all statements that the checkpoint uses.
type statements struct {
	create, claim, token, advance, park, parked, forget, rewind, unfence string
}

func statementsFor(table string) statements {
	names := strings.NewReplacer("{parked}", quoteName(table+"_parked"), "{table}", quoteName(table))
	of := names.Replace
	return statements{
		// Concurrent creations of a table fail, so they take turns. Statements that are sent together form one
		// transaction, or belong to the one that has begun.
		create: of(`select pg_advisory_xact_lock(hashtext('{table}'));
create table if not exists {table} (
	name text primary key,
	position text not null,
	token bigint not null,
	version bigint not null,
	changed timestamptz not null default now()
);
create table if not exists {parked} (
	name text not null,
	position text not null,
	error text not null,
	attempts int not null,
	token bigint not null,
	parked timestamptz not null,
	number bigserial not null,
	primary key (name, position)
)`),
		claim: of(`insert into {table} as t (name, position, token, version) values ($1, '', $2, 1)
on conflict (name) do update set token = $2, version = t.version + 1, changed = now()
where t.token = $2 - 1 or not $3::bool and t.token <= $2
returning position, token, version`),
		token: of(`select token from {table} where name = $1`),
		advance: of(`update {table} set position = $4, version = version + 1, changed = now()
where name = $1 and token = $2 and version = $3`),
		park: of(`insert into {parked} as p (name, position, error, attempts, token, parked) values ($1, $2, $3, $4, $5, $6)
on conflict (name, position) do update set error = excluded.error, attempts = excluded.attempts, token = excluded.token,
parked = excluded.parked, number = excluded.number`),
		parked: of(`select position, error, attempts, token, parked from {parked} where name = $1 order by number`),
		forget: of(`delete from {parked} where name = $1 and position = $2`),
		rewind: of(`insert into {table} as t (name, position, token, version) values ($1, $2, 0, 1)
on conflict (name) do update set position = $2, version = t.version + 1, changed = now()`),
		unfence: of(`update {table} set token = 0, version = version + 1, changed = now() where name = $1`),
	}
}

// quoteName returns a plain name quoted for SQL, because it may be a keyword.
func quoteName(name string) string { return pgx.Identifier(strings.Split(name, ".")).Sanitize() }

// Parked returns the processor's parked events, oldest first. It blocks until PostgreSQL has answered or ctx
// ends, and has no time-out of its own.
func (c *Checkpoint) Parked(ctx context.Context, name string) ([]processor.Parked, error) {
	rows, err := c.db.Query(ctx, c.sql.parked, name)
	if err != nil {
		return nil, fmt.Errorf("read the parked events of processor %q: %w", name, err)
	}
	parked, err := pgx.CollectRows(rows, pgx.RowToStructByPos[processor.Parked])
	if err != nil {
		return nil, fmt.Errorf("read the parked events of processor %q: %w", name, err)
	}
	return parked, nil
}

// Forget removes the record of a parked event. It returns no error if there is none. It blocks until PostgreSQL
// has answered or ctx ends, and has no time-out of its own. If it is cut short, it may have taken effect.
func (c *Checkpoint) Forget(ctx context.Context, name string, at processor.Position) error {
	if _, err := c.db.Exec(ctx, c.sql.forget, name, at); err != nil {
		return fmt.Errorf("forget the parked event of processor %q at %q: %w", name, at, err)
	}
	return nil
}

// Rewind makes the processor continue after the given position; "" is the beginning. Smaller tokens stay
// fenced. A running processor notices with its next event, or after Config.CheckInterval. It blocks as Forget
// does.
func (c *Checkpoint) Rewind(ctx context.Context, name string, to processor.Position) error {
	if err := to.Validate(); err != nil {
		return fmt.Errorf("rewind processor %q: %w", name, err)
	}
	if _, err := c.db.Exec(ctx, c.sql.rewind, name, to); err != nil {
		return fmt.Errorf("rewind processor %q to %q: %w", name, to, err)
	}
	return nil
}

// Unfence lets any token claim the checkpoint at its current position. It is for tokens that have started
// again. First make sure that no process with an old token is still running. It blocks as Forget does.
func (c *Checkpoint) Unfence(ctx context.Context, name string) error {
	if _, err := c.db.Exec(ctx, c.sql.unfence, name); err != nil {
		return fmt.Errorf("unfence the checkpoint of processor %q: %w", name, err)
	}
	return nil
}
