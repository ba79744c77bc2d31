// Package history records what the nodes of a cluster claim while faults are done to them, and checks
// afterwards whether the promises were kept: that no two nodes led at once, nor served a shard at once, that
// tokens and epochs grew, that nobody stopped silently, and that every shard is served once faults stop.
//
//	c := clustertest.New(t, 3)
//	rec := history.Record(t, history.Limits{ // judged when the test ends
//		Exempt: map[string]time.Duration{history.LeaseRevoked: time.Second}})
//	for i, n := range c.Nodes() {
//		rec.Add(fmt.Sprint("node", i), n.Cluster())
//	}
//	rec.Do("node0", history.LeaseRevoked, func() error { c.RevokeLease(c.Node(0)); return nil })
//
// Across processes each one records to a file of its own with [NewRecorder], and the parent judges the files
// together with [Check].
//
// # What counts as certain
//
// Every node is asked each millisecond, and at once when it reports a change. An answer was given at some
// instant between two stamps; in a process that was paused they lie far apart. The checker reports only what
// holds for every choice of those instants, so a finding is a proof, up to the clock.
//
// # The clock
//
// It is the same one in all processes, and goes on while one of them is stopped by SIGSTOP. On Linux, macOS,
// FreeBSD, OpenBSD and DragonFly it is the kernel's CLOCK_MONOTONIC. Elsewhere it is the wall clock: do not
// let it be stepped during a recording. Files of different machines, of different boots, or of different Linux
// time namespaces must not be judged together.
//
// # What a crash loses
//
// Every line is written as soon as it is known, in one piece. A file whose process was killed lacks at most the
// last 20 ms (and what the scheduler added) of an answer that did not change, and perhaps half a line, which is
// ignored.
//
// # What is not promised
//
// Silence of the checker proves nothing by itself: what happens between two samples is not seen, nor is what is
// shorter than their stamps are apart. A machine without a processor to spare samples less often. Leadership
// claimed by programs that are not sampled is not seen either. The format of the files may change: record and
// judge with the same version.
package history
