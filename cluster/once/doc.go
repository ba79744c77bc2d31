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
// place; nobody can know that but whoever received it. So it is neither repeated nor dropped:
// all who ask get an [UnknownError], until somebody who has looked says what is true
// ([Effects.Resolve]). To have none, let the receiver tell: give it the effect's name as its
// idempotency key, or write to a database in one transaction
//
//   - the effect itself, and
//   - the token, refusing one that is smaller than the token stored for this effect,
//
// and resolve by looking there.
//
// # What is not promised
//
//   - More than at most once within the retention: when the mark of an effect that took place
//     has expired, it can run again. One whose outcome is unknown never expires.
//   - That a function ends when its context does. One that goes on after the session's deadline
//     may still do its effect when others are already told that the outcome is unknown: the
//     token is there to refuse it.
package once
