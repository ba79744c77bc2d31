// Package history records what the nodes of a cluster claim while faults are done
// to them, and checks afterwards whether the promises were kept: that no two nodes
// led at once, nor served a shard at once, that tokens and epochs grew, that no write
// of a lost term was accepted, that nobody stopped silently, and that every shard is
// served once faults stop. Package clustertest/history is what of it is for users.
//
//	c := clustertest.New(t, 3)
//	rec := history.Record(t, history.Limits{  // judged when the test ends
//		Exempt: map[string]time.Duration{history.LeaseRevoked: time.Second}})
//	for i, n := range c.Nodes() {
//		rec.Add(history.Of(fmt.Sprint("node", i), n.Cluster()))
//	}
//	rec.Do("node0", history.LeaseRevoked, func() error { c.RevokeLease(c.Node(0)); return nil })
//
// Across processes each one records to a file of its own with [NewRecorder]; the
// parent merges the files with [ReadFiles] and judges them with [Check]:
//
//	node ─ sampled every ms ─┐
//	Register ─ writes, reads ┼─► Recorder ─► JSON lines ─┐
//	faults ─ marks ──────────┘   (one file a process)    ├─► History ─► Check ─► Verdict
//	Register.Follow ─ etcd's own order ──────────────────┤
//	Locks, Effects ─ holds, increments, attempts ────────┤
//	Objects ─ activations, calls ────────────────────────┤
//	Ledger ─ what took place ────────────────────────────┘
//
// # Subjects
//
// Leadership is one subject, and each shard is another ([Node.WithShards]). A claim to a
// shard has its epoch for a token, and everything is judged for each subject by itself: a
// [Term] is an unbroken claim to one, overlaps and growth are reported within one. An owner
// may go on under its epoch after a suspension of its session; with another session it is
// another owner. How long a subject was nobody's is in [Verdict.Pauses]. Every shard is
// asked for in every round, so give a recorded cluster some dozens, not thousands.
//
// # Locks and effects
//
// Each hold of a lock ([Recorder.Locks]) is a life of its own, which is asked whether it is valid
// for as long as it says so; several of one lock may stand at once if all share it. A counter
// ([Recorder.Counter]) is read and written by who holds a lock, on no condition but the lock's
// guard; were that accepted of two holders, an increment would be lost. An effect
// ([Recorder.Effects]) is a line in a file ([Ledger]) that no fault of the network reaches, and
// what callers were answered is held against that file. Locks and counters are checked against
// models as well: each has a linear order, or it is a finding.
//
// # Objects
//
// Each activation of an object ([Recorder.Objects]) is a life of its own, which is asked whether it is valid until it
// is over; no two of one object may stand at once. Calls of objects that count ([Recorder.ObjectCall]) are checked
// against a model: each object's have a linear order, or that is a finding.
//
// # What counts as certain
//
// A sample is an answer that a node gave at some instant between the two stamps of
// its [Window]; in a process that was paused they lie far apart. The checker reports
// only what holds for every choice of those instants. A term (one node, one token,
// no "no" in between) surely stood from the After of its first sample to the Before
// of its last, and a term seen once at some instant within one window. Two terms
// overlap for certain exactly if each surely had begun before the other surely had
// not ended. So a finding is a proof, up to the clock.
//
// # The clock
//
// [Now] must be the same clock in all processes, and must go on while one of them is
// stopped by SIGSTOP. On Linux, macOS, FreeBSD, OpenBSD and DragonFly it is the
// kernel's CLOCK_MONOTONIC. Elsewhere it is the wall clock, which somebody may set: do not let
// it be stepped during a recording. Histories of different machines, of different
// boots, or of different Linux time namespaces must not be merged.
//
// # What a crash loses
//
// Every line is handed to the writer as soon as it is known, in one piece and without
// a buffer in between. A change of what a node says is written at once; that it goes
// on saying the same, every 20 ms; that it goes on not serving a shard is not written
// before that changes, for its other lines show that it was there. So a file whose process was killed lacks at most
// the last 20 ms (and what the scheduler added) of an answer that did not change, and
// perhaps half a line, which is ignored. An attempt to write is recorded before it is
// sent: one without an answer has an unknown outcome.
//
// # What is not promised
//
// Silence of the checker proves nothing by itself: what happens between two samples,
// about a millisecond, is not seen, nor is what is shorter than their windows. A
// machine without a processor to spare samples less often. Leadership claimed by
// programs that are not sampled is not seen either.
package history
