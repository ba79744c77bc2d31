-- The events, which are kept. They are read in the order (xid, id), up to the oldest transaction that
-- still runs. Reading by id alone would miss events that are committed late; see Source in
-- cluster/processor/postgres.
create table if not exists events (
	xid xid8 not null default pg_current_xact_id(),
	id bigserial,
	body jsonb not null,
	primary key (xid, id)
);
create or replace function events_written() returns trigger language plpgsql as $$
begin
	notify events;
	return null;
end $$;
create or replace trigger events_written after insert on events for each statement execute function events_written();

-- The read model: everything below can be deleted and rebuilt from the events.
create table if not exists view_totals (
	customer text primary key,
	pieces bigint not null,
	cents bigint not null
);
create table if not exists view_products (
	product text primary key,
	pieces bigint not null
);
create table if not exists view_latest (
	customer text primary key,
	kind text not null,
	product text not null
);
