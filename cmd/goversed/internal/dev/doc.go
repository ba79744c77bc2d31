// Package dev is `goversed dev`: a whole cluster on one machine, to try things
// out. It runs an embedded etcd in this process and every node as a process of
// its own, shows what happens, and kills leaders if it is asked to.
//
//	etcd (here) ◄── mirror ──► differences ──► event lines, live table, figures
//	   ▲ ▲ ▲
//	   │ │ └── node process ──┐
//	   │ └──── node process ──┼── started, killed, replaced by the loop
//	   └────── node process ──┘
//
// One goroutine, the loop, owns all state. What happened between two snapshots,
// what the table shows and what the summary says are pure functions beside it.
// When [Run] returns, no process, goroutine, port or file of it is left. If this
// process is itself killed, Linux kills its nodes with it; what remains then is
// etcd's temporary directory, and the next Run removes it.
//
// # What is not promised
//
// Nothing here is meant for production: etcd is a single member that does not wait
// for its disk, without TLS and passwords, on 127.0.0.1. Measured times are those
// of this machine, from just before the signal is sent to the moment the mirror
// shows the next leader's key at the head of the queue. On systems other than
// Linux, nodes outlive a parent that was killed.
package dev
