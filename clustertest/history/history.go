package history

import (
	"io"
	"testing"
	"time"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/internal/test/history"
)

// Names of faults that can excuse an overlap, if Limits say so: what the design does not promise. Any other name
// is that of a fault which excuses nothing.
const (
	LeaseRevoked = history.LeaseRevoked // the lease of a node's session, by another process
	KeyDeleted   = history.KeyDeleted   // a leader's key, by another process
	RemovedAlive = history.RemovedAlive // a node, on evidence, though it lived
	OutsideLeads = history.OutsideLeads // a candidate that is no node, while this node acts in fallback
)

// Limits are what a history is judged by. The zero value is for a cluster to which nothing is done that the
// design does not cover.
type Limits struct {
	// Exempt names the faults that excuse an overlap, such as LeaseRevoked, and how long after it each may
	// last: until the old leader must have noticed. An overlap is excused if that was done to its older term's
	// node in that term, and it lies wholly between the fault and the bound. Without an entry nothing is
	// excused.
	Exempt map[string]time.Duration
	// Silent is how long a node to which nothing is being done may go without a session, or without a place in
	// the queue if it stands for election. Default 30 s; it must be more than a node needs to come back.
	Silent time.Duration
	// Unserved is how long a shard may have nobody who serves it, while a node that can have shards has a
	// session and no fault is being done to any node. Default 30 s. A cluster that rightly has nobody to serve
	// (all its nodes are excluded, or too few) needs a fault that says so.
	Unserved time.Duration
}

// Recorder records one process's part of a history. All methods are safe for concurrent use.
type Recorder struct{ inner *history.Recorder }

// Record records in the process of a test and judges it at the test's end: the test fails with the report if a
// promise was broken. Call it after clustertest.New, so that it ends before the cluster does, and add the nodes
// to it.
func Record(t testing.TB, limits Limits) *Recorder {
	t.Helper()
	return &Recorder{history.Record(t, history.Limits(limits))}
}

// NewRecorder begins a recording for [Check]. Process names this process in reports. Each line goes to w in one
// Write, at once. The recorder never closes w. An error of writing is returned by Stop; nothing is recorded
// after it.
func NewRecorder(w io.Writer, process string) *Recorder {
	return &Recorder{history.NewRecorder(w, process)}
}

// Add samples a cluster's node, which may be started later, as to leadership, until Stop. A name may be used
// again for a node that takes the place of one that ended; it is another life then. After Stop it does nothing.
func (r *Recorder) Add(name string, c *cluster.Cluster) { r.inner.Add(history.Of(name, c)) }

// AddWithShards is Add for a node that is asked about each of its shards as well. Give the cluster some dozens,
// not thousands, by cluster.Sharding.Shards.
func (r *Recorder) AddWithShards(name string, c *cluster.Cluster) {
	r.inner.Add(history.Of(name, c).WithShards(c))
}

// Do does a fault of that name, such as LeaseRevoked, to a node, and records between which instants that was. It
// returns what f returned; a fault that failed is recorded as well, for it may have worked.
func (r *Recorder) Do(node, name string, f func() error) error { return r.inner.Do(node, name, f) }

// Begin records that a fault begins: at a node, or, with node "", at all of them. It ends, and that is recorded,
// when end is called, or never. Call Begin before the fault is done and end after it is undone. The text is for
// people.
func (r *Recorder) Begin(node, name, text string) (end func()) {
	return r.inner.Begin(node, name, text)
}

// Stop ends the sampling, waits until it has ended and all is written, and returns the first error of writing.
// Stopping twice is harmless.
func (r *Recorder) Stop() error { return r.inner.Stop() }

// Verdict is what a history proves.
type Verdict struct{ inner history.Verdict }

// Check judges what several processes recorded in files of their own. An unfinished last line, which a crash
// leaves, is ignored. A recording of ten minutes of three nodes is judged in seconds.
func Check(limits Limits, paths ...string) (Verdict, error) {
	h, err := history.ReadFiles(paths...)
	if err != nil {
		return Verdict{}, err
	}
	return Verdict{history.Check(h, history.Limits(limits))}, nil
}

// OK reports whether no promise was broken.
func (v Verdict) OK() bool { return v.inner.OK() }

// Summary is the verdict in one line.
func (v Verdict) Summary() string { return v.inner.Summary() }

// String is the report as text: the verdict, what it rests on, and for each finding what the nodes said and what
// was done to them around it, in time order.
func (v Verdict) String() string { return v.inner.String() }
