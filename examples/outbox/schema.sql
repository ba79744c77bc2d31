-- What a service writes, and the outbox beside it: both in one transaction.
create table if not exists orders (
	id bigserial primary key,
	customer text not null,
	cents bigint not null
);

-- The order in which the outbox is read is (xid, id), up to the oldest transaction that still
-- runs: where (xid, id) > (…) and xid < pg_snapshot_xmin(pg_current_snapshot()).
--
-- By id alone, or by a time, rows are lost. A serial number is drawn before the commit, so 7 may
-- commit after 8: a publisher that has seen 8 has passed 7. It does not help to read ids up to
-- the oldest running transaction, because a transaction gets its number (xid) when it first
-- writes, and the serial may be drawn before that: 7 can have a later xid than 8.
--
-- Read this way none is lost: every transaction below pg_snapshot_xmin is over, its rows are
-- visible or will never be, and none that comes gets a number below. That number is the whole
-- transaction's, also within savepoints, and all its rows appear at once.
--
-- What it costs: a transaction that has written something, anywhere on this server, and stays
-- open holds up all that come after it. Set idle_in_transaction_session_timeout.
--
-- What it does not give: two transactions that change the same row may be numbered the other way
-- round, if the one that came second at that row wrote something else before. Where their
-- order matters, let each lock the row first of all (select … for update): it then has no
-- number while it waits.
--
-- Numbers begin anew when a dump is restored into another server: empty the outbox and begin
-- the publisher's checkpoint anew then (pg_upgrade keeps them).
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
