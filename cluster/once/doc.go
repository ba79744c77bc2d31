// Package once runs effects at most once in the whole cluster. For example, an e-mail is sent or an invoice is
// booked by one of many processes that all attempt it, or by one process that attempts it repeatedly.
//
// Effects of package cluster keeps the effects in etcd, and package cluster/once/postgres in PostgreSQL; both are a
// [Registry]. Each effect has a name, and a mark in the store that outlives every process. The mark records that the
// effect is running, that it is done and with which result, or that it failed and may be run again. Only the first
// entry in the effect's queue (see package lock) runs it. Every write of the mark has the condition that the writer
// is still first.
//
//	running ──(the function returned a result)──► done     the result is remembered
//	   │ └────(it returned an error)────────────► failed   the next call runs it again
//	   └──────(the process died, or its session)► unknown  see below
//
// # Unknown outcomes
//
// A process that dies between the effect and the mark leaves open whether the effect took place; only the system
// that received it can know. The effect is then neither repeated nor dropped. All callers get an [UnknownError]
// until Effects.Resolve records the outcome, found by looking at the receiver. That is easy if the receiver knows
// the effect's name as its idempotency key. Effects.List of package cluster finds effects with an unknown
// outcome, and Effects.Look reads the state of one, also from processes that do not run it.
//
// # In a database's transaction
//
// If the marks are in the same database, OnceTx of package cluster/once/postgres does what follows here. Any database
// can record the outcome itself, and can stop an attempt for which no caller waits any more. Each attempt writes its
// token in the transaction of the effect:
//
//	create table effects (name text, token bigint, took_place bool not null, primary key (name, token));
//
//	begin;
//	insert into effects values ($name, $token, true);     -- fails if the attempt was given up
//	update accounts set …;                                -- the effect
//	commit;
//
// A caller that gets an [UnknownError] writes the same row, and reads which of the two writes came first:
//
//	insert into effects values ($name, $token, false) on conflict do nothing;
//	select took_place from effects where name = $name and token = $token;
//
// It passes that answer to Effects.Resolve, with the error's token. The insertion waits for a transaction in
// progress. A later transaction fails, even if its process only stood still. An attempt that reported a failure
// must have rolled back by then.
//
// # What is not promised
//
//   - At most once holds only within the retention. When the mark of an effect that took place has expired, the
//     effect can run again. A mark with an unknown outcome never expires.
//   - A function may outlive its context. If it goes on after the session's deadline, it may still cause its
//     effect after others have seen an unknown outcome. The receiver should refuse it by its token.
//   - Look reports only whether the attempt's entry exists in the store. A running attempt may not be doing
//     anything, and an unknown one may not have ended.
package once
