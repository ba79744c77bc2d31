// Package once runs effects at most once in the whole cluster: an e-mail is sent, an invoice is
// booked, by one process of many that all try, or by the same one that tries again.
//
// Each effect has a name, and a mark in etcd that outlives every process: that it is running,
// that it is done and with what result, or that it failed and may be tried again. Only who is
// first in the effect's queue (see package lock) runs it, and every write of the mark is made
// under the condition that it still is.
//
//	running ──(the function returned a result)──► done     the result is remembered
//	   │ └────(it returned an error)────────────► failed   the next one to ask runs it again
//	   └──────(the process died, or its session)► unknown  see below
//
// # Unknown outcomes
//
// A process that dies between the effect and the mark leaves open whether the effect took
// place; only the system that received it can know. So it is neither repeated nor dropped:
// all who ask get an [UnknownError], until somebody who has looked says what is true
// (Effects.Resolve). If the receiver knows the effect's name as its idempotency key, that is
// easily known. Effects.List of package cluster finds those whose outcome is unknown, and
// Effects.Look says how one stands, from outside of all processes that try it.
//
// # In a database's transaction
//
// A database can say what is true, and stop an attempt that nobody waits for any more. Each
// attempt writes its token in the transaction of the effect itself:
//
//	create table effects (name text, token bigint, took_place bool not null, primary key (name, token));
//
//	begin;
//	insert into effects values ($name, $token, true);     -- fails if the attempt was given up
//	update accounts set …;                                -- the effect
//	commit;
//
// Who gets an [UnknownError] writes the same row, and asks which of the two came first:
//
//	insert into effects values ($name, $token, false) on conflict do nothing;
//	select took_place from effects where name = $name and token = $token;
//
// and gives that answer to Effects.Resolve, with the error's token. The insertion waits for a
// transaction that is under way; one that comes later fails, also if its process only stood still.
// An attempt that failed, and said so, must have rolled back by then.
//
// # What is not promised
//
//   - More than at most once within the retention: when the mark of an effect that took place
//     has expired, it can run again. One whose outcome is unknown never expires.
//   - That a function ends when its context does. One that goes on after the session's deadline
//     may still do its effect when others already know that the outcome is unknown: the
//     token is there to refuse it.
//   - That what Effects.Look calls running still does anything, nor that what it calls unknown has
//     ended: it says whether the attempt's place stands at etcd.
package once
