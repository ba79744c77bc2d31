-- The service writes orders and outbox in one transaction.
create table if not exists orders (
	id bigserial primary key,
	customer text not null,
	cents bigint not null
);

-- The outbox is read in the order (xid, id), up to the oldest transaction that still runs. Reading by
-- id alone would miss rows that are committed late. Source, in cluster/processor/postgres, explains
-- the reasons, the costs and the limits. After restoring a dump into another server, empty the outbox
-- and reset the publisher's checkpoint.
create table if not exists outbox (
	xid xid8 not null default pg_current_xact_id(),
	id bigserial,
	body jsonb not null,
	created timestamptz not null default now(),
	parked text, -- the reason that the sink rejected it
	primary key (xid, id)
);

-- Notifications avoid frequent polling. But transactions that notify commit one at a time. If that is
-- too slow, leave the trigger out and set a shorter -poll.
create or replace function outbox_written() returns trigger language plpgsql as $$
begin
	notify outbox;
	return null;
end $$;
create or replace trigger outbox_written after insert on outbox for each statement execute function outbox_written();
