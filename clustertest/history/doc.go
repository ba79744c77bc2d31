// Package history records the claims of a cluster's nodes while faults are injected, and checks afterwards that
// the promises were kept. No two nodes may lead at once or serve a shard at once. Tokens and epochs must grow.
// No node may stop silently. Every shard must be served again once the faults end.
//
//	c := clustertest.New(t, 3)
//	rec := history.Record(t, history.Limits{ // judged when the test ends
//		Exempt: map[string]time.Duration{history.LeaseRevoked: time.Second}})
//	for i, n := range c.Nodes() {
//		rec.Add(fmt.Sprint("node", i), n.Cluster())
//	}
//	rec.Do("node0", history.LeaseRevoked, func() error { c.RevokeLease(c.Node(0)); return nil })
//
// If the nodes run in several processes, each process records to a file of its own with [NewRecorder], and the
// parent judges the files together with [Check].
//
// # What counts as certain
//
// Every node is asked each millisecond, and at once when it reports a change. An answer was given at some
// instant between two time stamps; if the process was paused, they lie far apart. The checker reports only
// violations that hold for every choice of those instants. A finding is therefore a proof, as far as the clock
// is right.
//
// # The clock
//
// All processes use the same clock, and it continues while SIGSTOP stops one of them. On Linux, macOS, FreeBSD,
// OpenBSD and DragonFly it is the kernel's CLOCK_MONOTONIC. Elsewhere it is the wall clock, which must not be
// stepped during a recording. Files from different machines, different boots, or different Linux time
// namespaces must not be judged together.
//
// # What a crash loses
//
// Every line is written immediately, in one piece. If a process is killed, its file lacks at most the last 20
// ms, plus any scheduling delay, of an answer that did not change. An unfinished last line is ignored.
//
// # What is not promised
//
// A verdict without findings proves nothing by itself. Events between two samples are not seen, and neither are
// events shorter than the distance of a sample's time stamps. A machine without processor time to spare samples
// less often. Leadership claimed by programs that are not sampled is not seen. The format of the files may
// change: record and judge with the same version.
//
// Experimental: the API of this package may change in any minor release.
package history
