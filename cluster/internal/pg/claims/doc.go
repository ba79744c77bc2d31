// Package claims keeps sessions in PostgreSQL, and the claims of processes on names. Locks, the
// candidacies of elections and the attempts of effects are claims. In etcd, package leasequeue does the same.
//
// A process has one session at a time, on three connections:
//
//	connection     use
//	main           holds the session's advisory lock, sends heartbeats, receives notifications of grants
//	commands       carries out claims and releases, many in one transaction
//	watcher        looks at the other sessions, and ends those that are silent
//
// # The deadline
//
// Everything rests on a deadline D, as with etcd. A heartbeat raises the counter in the session's row. The holder
// relies on its claims until D, less 1 %, after it sent the last heartbeat that was confirmed, by both its clocks. No
// other process takes over before that counter has stood still for D by its own monotonic clock. It saw the counter
// after the heartbeat was sent, so the holder's deadline has passed.
//
//	holder    ├─ heartbeat 7 sent ─────────────── D − 1 % ──────────────┤ deadline
//	server         └─ committed
//	taker             └─ counter 7 seen ──────────────── D ───────────────────┤ takes over, if the counter is 7
//
// A session is also bound to its connection: if it ends, so does the session, and the process itself gives it up for
// the others on the next one. The advisory lock shows whether a silent session's connection exists. If it does, the
// process stands still or the network is cut: the taker terminates the connection, and waits for D once more.
//
// # Epochs
//
// After a crash, a restart or a promotion of the server all connections are gone, and the last commits may be. So
// nothing is granted for D: a row in a table that is not logged, with the time at which the server started, is missing
// or differs then. Every process that makes or sees the new row opens the epoch when it has seen it for D.
//
// # Claims
//
// A claim is a row with a place, drawn under the lock of the name's row, and being granted is stored in it, with a
// token: the larger of the last one plus one, and the microseconds of the server's clock. A notification makes the
// watcher of the holder's session ask for the grant; it grants nothing by itself, because any user of the database can
// send one.
//
// The row of a name is deleted when it has not been claimed for an hour. One number keeps the largest token of all such
// names, so that no token comes again even if the clock is set back.
//
// A program that has locked the row of a name, or of a session, holds up that name or costs that session. No other one
// waits for it: the watcher skips what is locked, and requests wait for a while only.
//
// # What is not promised
//
//   - Anything while an old primary serves beside a standby that was promoted, unless replication is synchronous. The
//     old one then confirms no heartbeat, because its standby does not. Otherwise only fencing by the program that
//     promotes helps.
//   - If a promoted standby lacks the row of a session with a longer deadline than all others, claims may be granted
//     before that deadline. Deadlines are a minute at most.
//   - If an old copy of the data that lacks the tables takes the server's place without a promotion, claims may be
//     granted before the deadline.
//   - Rows that are deleted by hand, or tables that are dropped, are noticed at the next heartbeat or look, and the
//     next claim does not wait for that.
package claims
