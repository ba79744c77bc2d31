-- What a service writes, and the outbox beside it: both in one transaction.
create table if not exists orders (
	id bigserial primary key,
	customer text not null,
	cents bigint not null
);

-- The outbox is read in the order (xid, id), up to the oldest transaction that still runs: by id
-- alone, rows that are committed late would be missed. Source, in cluster/processor/postgres,
-- says why nothing less will do, what it costs and what it does not give. When a dump is restored into
-- another server, empty the outbox, and begin the publisher's checkpoint anew.
create table if not exists outbox (
	xid xid8 not null default pg_current_xact_id(),
	id bigserial,
	body jsonb not null,
	created timestamptz not null default now(),
	parked text, -- why the sink will not have it
	primary key (xid, id)
);

-- So that it need not be polled fast. Transactions that notify commit one at a time: where that
-- is too slow, leave the trigger out, and give -poll less.
create or replace function outbox_written() returns trigger language plpgsql as $$
begin
	notify outbox;
	return null;
end $$;
create or replace trigger outbox_written after insert on outbox for each statement execute function outbox_written();
