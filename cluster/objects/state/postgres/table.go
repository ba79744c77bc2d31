package postgres

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/goverse/goverse/cluster/internal/pg"
	"github.com/goverse/goverse/cluster/objects/state"
)

const defaultTable = "goverse_objects"

// plainName matches names that need no quotes, so that the name here and in psql is the same.
var plainName = regexp.MustCompile(`^([a-z_][a-z0-9_]{0,62}\.)?[a-z_][a-z0-9_]{0,54}$`)

func checkTable(table string) error {
	if !plainName.MatchString(table) {
		return fmt.Errorf("%w: the table's name is %q; write it in small letters, digits and underscores, with a "+
			"schema and a dot before it or not, of at most 55 bytes", state.ErrBadConfig, table)
	}
	return nil
}

// CreateTables creates the tables unless they exist; then it needs no right to create tables. "" means the default
// name. Any number of processes may call it at once and repeatedly. It does not check all columns of existing tables.
// It blocks until PostgreSQL has answered or ctx ends.
func CreateTables(ctx context.Context, db DB, table string) error {
	table = cmp.Or(table, defaultTable)
	if err := checkTable(table); err != nil {
		return err
	}
	sql := statementsFor(table)
	if there, err := pg.HasTables(ctx, db, sql.latest); there && err == nil {
		return nil
	}
	if _, err := db.Exec(ctx, sql.create); err != nil {
		return fmt.Errorf("create the tables of objects: %w", err)
	}
	return nil
}

// Every expireEvery-th save with a reply removes up to expireBatch expired replies, and as many expired claims.
// That is more than are added in the meantime, and few enough not to slow the save.
const (
	expireEvery = 16
	expireBatch = 64
)

// statements holds all statements that the store uses.
type statements struct {
	create, load, read, save, saveReply, saveExpire, reply string
	latest                                                 map[string]string // the last column of each table
}

func statementsFor(table string) statements {
	schema, name, found := strings.Cut(table, ".")
	if !found {
		name = schema
	}
	names := strings.NewReplacer("{table}", quoteName(table), "{replies}", quoteName(table+"_replies"),
		"{empty index}", quoteName(name+"_empty"), "{age index}", quoteName(name+"_age"),
		"{batch}", fmt.Sprint(expireBatch))
	of := names.Replace
	// The state's row has no index on a column that a save changes, so PostgreSQL can update the row in its
	// page.
	save := `update {table} set epoch = $3, version = version + 1, state = $5, updated_at = now(),
empty_since = case when $6::bool then now() end
where service = $1 and key = $2 and version = $4 and epoch <= $3
returning version`
	saveReply := `with saved as (` + save + `), replied as (
	insert into {replies} (service, key, request_id, reply, created_at)
	select $1, $2, $7::text, $8::bytea, now() from saved
	on conflict (service, key, request_id) do update set reply = excluded.reply, created_at = excluded.created_at
)`
	expire := `, old_replies as (
	select service, key, request_id from {replies}
	where created_at <= now() - $9::interval and (service, key, request_id) <> ($1, $2, $7::text)
	order by created_at limit {batch} for update skip locked
), no_replies as (
	delete from {replies} r using old_replies o
	where r.service = o.service and r.key = o.key and r.request_id = o.request_id
), old_claims as (
	select service, key from {table}
	where empty_since <= now() - $9::interval and (service, key) <> ($1, $2)
	order by empty_since limit {batch} for update skip locked
), no_claims as (
	delete from {table} t using old_claims o where t.service = o.service and t.key = o.key
)`
	return statements{
		latest: map[string]string{of("{table}"): "empty_since", of("{replies}"): "created_at"},
		// Concurrent creations of a table fail, so they take turns. Statements that are sent together form one
		// transaction.
		create: of(`select pg_advisory_xact_lock(hashtext('{table}'));
create table if not exists {table} (
	service text not null,
	key bytea not null,
	epoch bigint not null,
	version bigint not null,
	state bytea not null,
	updated_at timestamptz not null default now(),
	empty_since timestamptz, -- not null: the object is claimed, and has no state
	primary key (service, key)
) with (fillfactor = 80);
create index if not exists {empty index} on {table} (empty_since) where empty_since is not null;
create table if not exists {replies} (
	service text not null,
	key bytea not null,
	request_id text not null,
	reply bytea not null,
	created_at timestamptz not null,
	primary key (service, key, request_id)
);
create index if not exists {age index} on {replies} (created_at)`),
		// A row that was removed and is created again starts at a version that it never had.
		load: of(`insert into {table} as t (service, key, epoch, version, state, empty_since)
values ($1, $2, $3, (extract(epoch from clock_timestamp()) * 1000000)::bigint, '', now())
on conflict (service, key) do update set epoch = excluded.epoch, version = t.version + 1, updated_at = now(),
empty_since = case when t.empty_since is not null then now() end
where t.epoch <= excluded.epoch
returning version, empty_since is null, state`),
		read:       of(`select version, epoch from {table} where service = $1 and key = $2`),
		save:       of(save),
		saveReply:  of(saveReply + ` select version from saved`),
		saveExpire: of(saveReply + expire + ` select version from saved`),
		reply: of(`select reply from {replies}
where service = $1 and key = $2 and request_id = $3 and created_at > now() - $4::interval`),
	}
}

// quoteName returns a plain name quoted for SQL, because it may be a keyword.
func quoteName(name string) string { return pgx.Identifier(strings.Split(name, ".")).Sanitize() }
