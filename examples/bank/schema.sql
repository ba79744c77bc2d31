-- Statements that are sent together are one transaction, and nodes that start at once take turns.
select pg_advisory_xact_lock(hashtext('examples/bank'));

-- One row for each change of a balance: what an account's rows add up to is its balance, and what the rows of a
-- transfer add up to is what it has withdrawn and not deposited yet.
create table if not exists bank_ledger (
	request text not null, -- the transfer's id, or that of the request which opened the account
	account text not null,
	amount bigint not null,
	written timestamptz not null default now(),
	primary key (request, account)
);
create index if not exists bank_ledger_account on bank_ledger (account);

-- The transfers that are recorded and have no outcome yet.
create table if not exists bank_unfinished (
	transfer text primary key,
	since timestamptz not null default now()
);
