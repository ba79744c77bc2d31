-- The events that the sink has received; number is the order of arrival.
create table if not exists received (
	number bigserial primary key,
	event text not null unique,
	token bigint not null,
	body jsonb not null,
	at timestamptz not null default now()
);
-- A single row with the largest token seen, and the numbers of repeated and of refused events.
create table if not exists received_from (
	one boolean primary key default true check (one),
	token bigint not null default 0,
	repeated bigint not null default 0,
	refused bigint not null default 0
);
insert into received_from default values on conflict do nothing;
