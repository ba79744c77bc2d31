package postgres

import (
	"strings"

	"github.com/jackc/pgx/v5"
)

// statements holds all statements that the source uses. $1 is the automation's name, and $2 the item's key.
type statements struct {
	create, claim, failure, value, done, stillDue, fail, forget, forgetOld, count, parked string

	latest map[string]string // the column of each table that was added last
}

// countLimit limits the items that are counted as due, because each is looked at.
const countLimit = "10000"

func statementsFor(table, key, where, orderBy, selected, done, failures string) statements {
	if orderBy != "" {
		orderBy = "order by " + orderBy
	}
	names := strings.NewReplacer("{table}", quoteName(table), "{key}", quoteName(key), "{where}", where,
		"{order}", orderBy, "{select}", selected, "{failures}", quoteName(failures), "{limit}", countLimit,
		"{due}", `(`+where+`) and not exists (select from `+quoteName(failures)+` f where f.name = $1
and f.key = t.`+quoteName(key)+`::text and (f.parked is not null or f.due > clock_timestamp()))`)
	of := names.Replace
	return statements{
		latest: map[string]string{of("{failures}"): "parked"},
		// Concurrent creations of a table fail, so they take turns.
		create: of(`select pg_advisory_xact_lock(hashtext('{failures}'));
create table if not exists {failures} (
	name text not null,
	key text not null,
	attempts int not null,
	failures int not null,
	due timestamptz not null,
	error text not null,
	parked timestamptz,
	primary key (name, key)
)`),
		claim: of(`select t.{key}::text from {table} t where {due} {order} limit 1 for update of t skip locked`),
		failure: of(`select attempts, failures, error, parked is not null or due > clock_timestamp() from {failures}
where name = $1 and key = $2`),
		value:    of(`select {select} from {table} t where {key} = $1 and ({where})`),
		done:     done,
		stillDue: of(`select exists(select from {table} t where {key} = $1 and ({where}))`),
		fail: of(`insert into {failures} as f (name, key, attempts, failures, due, error, parked)
values ($1, $2, $3, $4, clock_timestamp() + make_interval(secs => $5), $6, case when $7 then clock_timestamp() end)
on conflict (name, key) do update set attempts = excluded.attempts, failures = excluded.failures, due = excluded.due,
error = excluded.error, parked = excluded.parked`),
		forget: of(`delete from {failures} where name = $1 and key = $2`),
		// Items that left the list in another way leave their failures behind.
		forgetOld: of(`delete from {failures} where (name, key) in (select name, key from {failures}
where name = $1 and parked is null and due < clock_timestamp() - interval '1 day' for update skip locked)`),
		count: of(`select (select count(*) from (select from {table} t where {due} limit {limit}) counted),
(select count(*) from {failures} where name = $1 and parked is null and due > clock_timestamp()),
(select count(*) from {failures} where name = $1 and parked is not null)`),
		parked: of(`select key, error, attempts, parked from {failures} where name = $1 and parked is not null
order by parked, key limit $2`),
	}
}

// quoteName returns a plain name quoted for SQL, because it may be a keyword.
func quoteName(name string) string { return pgx.Identifier(strings.Split(name, ".")).Sanitize() }
