package postgres

import (
	"strings"

	"github.com/jackc/pgx/v5"
)

// statements holds all statements that the checkpoint uses.
type statements struct {
	create, claim, token, advance, park, handled, failed, parked, parkedEvent, requestRetry, forget, rewind, unfence,
	report, requestPause, look, list string
	latest map[string]string // the column of each table that was added last
}

// markColumns are the columns of a mark, but for the requests.
const markColumns = "position, token, version, claims, replay"

func statementsFor(table string) statements {
	names := strings.NewReplacer("{parked}", quoteName(table+"_parked"), "{retry}", quoteName(indexName(table)),
		"{status}", quoteName(table+"_status"), "{table}", quoteName(table), "{mark}", markColumns, "{requests}", requests)
	of := func(sql string) string { return names.Replace(names.Replace(sql)) }
	return statements{
		latest: map[string]string{of("{table}"): "replay", of("{parked}"): "retry", of("{status}"): "report"},
		// Concurrent creations of a table fail, so they take turns. Statements that are sent together form one
		// transaction, or belong to the one that has begun. Tables of earlier releases get the columns that they lack;
		// without a lock if they lack none.
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
);
create table if not exists {status} (
	name text primary key,
	paused boolean not null default false,
	request bigint not null default 0,
	reason text not null default '',
	requested_by text not null default '',
	requested_at timestamptz not null default now(),
	report text
);
do $$ begin
	if not exists (select from pg_attribute where attrelid = '{table}'::regclass and attname = 'claims') then
		alter table {table} add column if not exists claims bigint not null default 0;
		alter table {table} add column if not exists replay text not null default '';
		alter table {parked} add column if not exists after text not null default '';
		alter table {parked} add column if not exists retry boolean not null default false;
		create index if not exists {retry} on {parked} (name, number) where retry;
	end if;
end $$`),
		claim: of(`insert into {table} as t (name, position, token, version, claims) values ($1, '', $2, 1, 1)
on conflict (name) do update set token = $2, version = t.version + 1, claims = t.claims + 1, changed = now()
where t.token = $2 - 1 or not $3::bool and t.token <= $2
returning {mark}, {requests}`),
		token: of(`select token from {table} where name = $1`),
		advance: of(`update {table} set position = $4, replay = $5, version = version + 1, changed = now()
where name = $1 and token = $2 and version = $3
returning {mark}, {requests}`),
		park: of(`insert into {parked} as p (name, position, error, attempts, token, parked, after)
values ($1, $2, $3, $4, $5, $6, $7)
on conflict (name, position) do update set error = excluded.error, attempts = excluded.attempts, token = excluded.token,
parked = excluded.parked, number = excluded.number, after = excluded.after, retry = false`),
		handled: of(`delete from {parked} where name = $1 and position = any($2::text[])`),
		failed: of(`update {parked} set error = $3, attempts = $4, token = $5, parked = $6, retry = false
where name = $1 and position = $2`),
		parked: of(`select position, after, error, attempts, token, parked, retry from {parked} where name = $1
order by number limit $2`),
		parkedEvent: of(`select position, after, error, attempts, token, parked, retry from {parked}
where name = $1 and position = $2`),
		requestRetry: of(`update {parked} set retry = true where name = $1 and position = $2`),
		forget:       of(`delete from {parked} where name = $1 and position = $2`),
		rewind: of(`insert into {table} as t (name, position, token, version) values ($1, $2, 0, 1)
on conflict (name) do update set position = $2, version = t.version + 1, changed = now(),
replay = case when t.replay <> '' or t.position = $2 then t.replay else t.position end`),
		unfence: of(`update {table} set token = 0, version = version + 1, changed = now() where name = $1`),
		// The requests are read with the report, so that it costs one round trip.
		report: of(`with published as (
	insert into {status} as s (name, report) select name, $3 from {table} where name = $1 and token = $2
	on conflict (name) do update set report = excluded.report
)
select {mark}, {requests} from {table} where name = $1`),
		requestPause: of(`insert into {status} as s (name, paused, request, reason, requested_by, requested_at)
values ($1, $2, 1, $3, $4, $5)
on conflict (name) do update set paused = $2, request = s.request + 1, reason = $3, requested_by = $4,
requested_at = $5`),
		look: of(standing + `from (select $1::text as name) n left join {table} t using (name)
left join {status} s using (name) where t.name is not null or s.request > 0`),
		list: of(standing + `from {table} t left join {status} s using (name)
where name > $1 order by name limit $2`),
	}
}

// requests are the columns of a mark with what operators request. $1 is the processor's name.
const requests = `coalesce((select paused from {status} where name = $1), false),
coalesce((select request from {status} where name = $1), 0),
coalesce((select position from {parked} where name = $1 and retry order by number limit 1), '')`

// standing is the beginning of a statement that reads processors.
const standing = `select name, coalesce(t.position, ''), coalesce(t.token, 0), coalesce(t.claims, 0),
coalesce(t.replay, ''), coalesce(s.paused, false), coalesce(s.reason, ''), coalesce(s.requested_by, ''),
coalesce(s.requested_at, 'epoch'), coalesce(s.request, 0), coalesce(s.report, ''),
(select count(*) from {parked} p where p.name = coalesce(t.name, s.name))
`

// indexName returns the name of the index of requested retries, which is in the schema of its table.
func indexName(table string) string { return table[strings.LastIndexByte(table, '.')+1:] + "_retry" }

// quoteName returns a plain name quoted for SQL, because it may be a keyword.
func quoteName(name string) string { return pgx.Identifier(strings.Split(name, ".")).Sanitize() }
