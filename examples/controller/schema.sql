-- One copy at a time, because "if not exists" does not keep two from creating the same table.
select pg_advisory_xact_lock(hashtext('controller'));

create table if not exists controller_configs (
	name text primary key,
	document text not null -- of the client, byte by byte
);

-- The answers to writes, by the id of the write.
create table if not exists controller_writes (
	id text primary key,
	answer text not null,
	written timestamptz not null default now()
);
create index if not exists controller_writes_written on controller_writes (written);
