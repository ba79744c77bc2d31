// Package dev implements `goversed dev`, a whole cluster on one machine for trying things out. It runs an
// embedded etcd in this process and each node as a process of its own, shows what happens, and kills leaders on
// request.
//
//	etcd (here) ◄── mirror ──► differences ──► event lines, live table, figures
//	   ▲ ▲ ▲
//	   │ │ └── node process ──┐
//	   │ └──── node process ──┼── started, killed, replaced by the loop
//	   └────── node process ──┘
//
// One goroutine, the loop, owns all state. The differences between two snapshots, the rows of the table and the
// text of the summary come from pure functions beside it. When [Run] returns, no process, goroutine, port or
// file of it remains. If this process itself is killed, Linux kills its nodes with it; only etcd's temporary
// directory remains, and the next Run removes it.
//
// # What is not promised
//
// This package is not for production: etcd is a single member on 127.0.0.1, without TLS and passwords, that
// does not wait for its disk. Times are measured on this machine, from just before the signal is sent to the
// moment the mirror shows the next leader's key at the head of the queue. On systems other than Linux, nodes
// outlive a parent that was killed.
package dev
