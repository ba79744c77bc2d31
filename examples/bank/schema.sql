-- These statements are sent together and so are one transaction. The lock serialises nodes that start at the same time.
select pg_advisory_xact_lock(hashtext('examples/bank'));

-- One row for each change of a balance. The rows of an account add up to its balance. The rows of a transfer add up
-- to 0 once it is finished; until then their sum is the negated amount in flight.
create table if not exists bank_ledger (
	request text not null, -- the transfer's id, or that of the request which opened the account
	account text not null,
	amount bigint not null,
	written timestamptz not null default now(),
	primary key (request, account)
);
create index if not exists bank_ledger_account on bank_ledger (account);

-- The recorded transfers without an outcome.
create table if not exists bank_unfinished (
	transfer text primary key,
	since timestamptz not null default now()
);
