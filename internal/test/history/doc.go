// Package history records the claims of a cluster's nodes while faults are injected, and checks afterwards that
// the promises were kept. No two nodes may lead at once or serve a shard at once. Tokens and epochs must grow.
// No write of a lost term may be accepted. No node may stop silently. Every shard must be served again once the
// faults end. Package clustertest/history is the public part of it.
//
//	c := clustertest.New(t, 3)
//	rec := history.Record(t, history.Limits{  // judged when the test ends
//		Exempt: map[string]time.Duration{history.LeaseRevoked: time.Second}})
//	for i, n := range c.Nodes() {
//		rec.Add(history.NodeOf(fmt.Sprint("node", i), n.Cluster()))
//	}
//	rec.Intervene("node0", history.LeaseRevoked, func() error { c.RevokeLease(c.Node(0)); return nil })
//
// If the nodes run in several processes, each process records to a file of its own with [NewRecorder]. The
// parent merges the files with [ReadFiles] and judges them with [Check]:
//
//	node ─ sampled every ms ─┐
//	Register ─ writes, reads ┼─► Recorder ─► JSON lines ─┐
//	faults ─ marks ──────────┘   (one file a process)    ├─► History ─► Check ─► Verdict
//	Register.Follow ─ etcd's own order ──────────────────┤
//	Locks, Effects ─ holds, increments, attempts ────────┤
//	Objects ─ activations, calls ────────────────────────┤
//	Ledger ─ effects that took place ────────────────────┘
//
// # Subjects
//
// Leadership is one subject, and each shard is another ([Node.WithShards]). A claim to a shard has its epoch
// for a token. Each subject is judged by itself: a [Term] is an unbroken claim to one subject, and overlaps and
// growth are reported within one. An owner may continue under its epoch after its session was suspended; with
// another session it is another owner. [Verdict.Pauses] returns the times during which no node claimed a
// subject. Every shard is asked for in every round, so give a recorded cluster some dozens of shards, not
// thousands.
//
// # Locks and effects
//
// Each hold of a lock ([Recorder.Locks]) is a life of its own and is asked whether it is valid until it answers
// no. Several holds of one lock may exist at once if all share it. The holder of a lock reads and increments a
// counter ([Recorder.Counter]) under the lock's guard alone; if etcd accepted that from two holders, an
// increment would be lost. [Recorder.Row] is the same for a lock in PostgreSQL. An effect ([Recorder.Effects])
// is a line in a file ([Ledger]) that no network fault reaches, and the answers that callers got are compared
// with that file. Locks and counters are checked against models as well: one without a linear order is a
// finding.
//
// # Objects
//
// Each activation of an object ([Recorder.Objects]) is a life of its own and is asked whether it is valid until
// it is over. No two activations of one object may exist at once. Calls of objects that count
// ([Recorder.ObjectCall]) are checked against a model: an object without a linear order of its calls is a
// finding.
//
// # What counts as certain
//
// A sample is an answer that a node gave at some instant between the two time stamps of its [Window]; if the
// process was paused, they lie far apart. The checker reports only violations that hold for every choice of
// those instants. A term (one node, one token, no "no" in between) certainly existed from the After of its
// first sample to the Before of its last, and a term seen once at some instant within one window. Two terms
// certainly overlap if and only if each had certainly begun before the other's certain end. A finding is
// therefore a proof, as far as the clock is right.
//
// # The clock
//
// [Now] must be the same clock in all processes, and must continue while SIGSTOP stops one of them. On Linux,
// macOS, FreeBSD, OpenBSD and DragonFly it is the kernel's CLOCK_MONOTONIC. Elsewhere it is the wall clock,
// which must not be stepped during a recording. Histories from different machines, different boots, or
// different Linux time namespaces must not be merged.
//
// # What a crash loses
//
// Every line is passed to the writer immediately, in one piece and unbuffered. A change of a node's answer is
// written at once, and an unchanged answer every 20 ms. That a node continues not to serve a shard is written
// only when that changes, because its other lines show that it was running. If a process is killed, its file
// therefore lacks at most the last 20 ms, plus any scheduling delay, of an answer that did not change. An
// unfinished last line is ignored. An attempt to write is recorded before it is sent: without an answer its
// outcome is unknown.
//
// # What is not promised
//
// A verdict without findings proves nothing by itself. Events between two samples, about a millisecond, are not
// seen, and neither are those shorter than the samples' windows. A machine without processor time to spare
// samples less often. Leadership claimed by programs that are not sampled is not seen.
package history
