package history

import (
	"io"
	"testing"
	"time"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/internal/test/history"
)

// Names of the faults that Limits can let excuse an overlap, because the design makes no promise about them. A
// fault of any other name excuses nothing.
const (
	LeaseRevoked = history.LeaseRevoked // another process revoked the lease of a node's session
	KeyDeleted   = history.KeyDeleted   // another process deleted a leader's key
	RemovedAlive = history.RemovedAlive // a living node was removed on evidence
	OutsideLeads = history.OutsideLeads // a candidate that is no node led while this node acted in fallback
)

// Limits configures the judgement of a history. The zero value suits a cluster with only those faults that the
// design covers.
type Limits struct {
	// Exempt maps the name of each fault that excuses an overlap, such as LeaseRevoked, to the longest time
	// after it that such an overlap may last: the time by which the old leader must have noticed. An overlap is
	// excused if the fault hit the node of its older term during that term, and the overlap lies entirely
	// between the fault and the bound. A fault without an entry excuses nothing.
	Exempt map[string]time.Duration
	// Silent limits the time that a node without a fault in progress may have no session, or no place in the
	// queue if it stands for election. The default is 30 s. It must be longer than a node needs to recover.
	Silent time.Duration
	// Unserved limits the time that a shard may have no serving owner while a node that can own shards has a
	// session and no node has a fault in progress. The default is 30 s. A cluster that rightly serves no
	// shards, because all its nodes are excluded or there are too few, needs a fault begun for that period.
	Unserved time.Duration
}

// Recorder records the part of a history that one process sees. All methods are safe for concurrent use.
type Recorder struct{ inner *history.Recorder }

// Record records in a test's process and judges the history when the test ends. It fails the test with a report
// if a promise was broken. Call it after clustertest.New, so that it ends before the cluster does, and add the
// nodes to it.
func Record(t testing.TB, limits Limits) *Recorder {
	t.Helper()
	return &Recorder{history.Record(t, history.Limits(limits))}
}

// NewRecorder starts a recording for [Check]. process names this process in reports. Each line goes to w at
// once, in a single Write. The recorder never closes w. After a write error nothing more is recorded; Stop
// returns the error.
func NewRecorder(w io.Writer, process string) *Recorder {
	return &Recorder{history.NewRecorder(w, process)}
}

// Add samples the leadership of a cluster's node until Stop. The node may be started later. A name may be used
// again for a node that replaces one that ended; the history then has two lives of that name. After Stop, Add
// does nothing.
func (r *Recorder) Add(name string, c *cluster.Cluster) { r.inner.Add(history.NodeOf(name, c)) }

// AddWithShards is Add for a node that is also asked about each of its shards. Configure some dozens of shards,
// not thousands, with cluster.Sharding.Shards.
func (r *Recorder) AddWithShards(name string, c *cluster.Cluster) {
	r.inner.Add(history.NodeOf(name, c).WithShards(c))
}

// Do injects a fault into a node by calling f, and records the fault's name, such as LeaseRevoked, and its
// start and end. It returns the error of f. A fault that failed is recorded as well, because it may have taken
// effect.
func (r *Recorder) Do(node, name string, f func() error) error {
	return r.inner.Intervene(node, name, f)
}

// Begin records the start of a fault at a node, or at all nodes if node is "". The fault lasts until end is
// called, which records its end. Call Begin before the fault is injected, and end after it is undone. text
// describes the fault in reports.
func (r *Recorder) Begin(node, name, text string) (end func()) {
	return r.inner.BeginFault(node, name, text)
}

// Stop ends the sampling, waits until everything is written, and returns the first write error. Stopping twice
// is harmless.
func (r *Recorder) Stop() error { return r.inner.Stop() }

// Verdict is the judgement of a history.
type Verdict struct{ inner history.Verdict }

// Check judges the recordings of several processes together. An unfinished last line, which a crash leaves, is
// ignored. Ten minutes of three nodes are judged in seconds.
func Check(limits Limits, paths ...string) (Verdict, error) {
	h, err := history.ReadFiles(paths...)
	if err != nil {
		return Verdict{}, err
	}
	return Verdict{history.Check(h, history.Limits(limits))}, nil
}

// OK reports whether no promise was broken.
func (v Verdict) OK() bool { return v.inner.OK() }

// Summary returns the verdict in one line.
func (v Verdict) Summary() string { return v.inner.Summary() }

// String returns the full report: the verdict, the counts it rests on, and for each finding the surrounding
// claims and faults in time order.
func (v Verdict) String() string { return v.inner.String() }
