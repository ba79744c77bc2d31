create table if not exists outbox (
	xid xid8 not null default pg_current_xact_id(),
	id bigserial,
	body jsonb not null,
	primary key (xid, id)
);

create or replace function outbox_written() returns trigger language plpgsql as $$
begin
	notify outbox;
	return null;
end $$;
create or replace trigger outbox_written after insert on outbox for each statement execute function outbox_written();
