package history

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/clustertest"
)

const (
	key        = "/elsewhere/register"
	liveShards = 6
)

// live is three nodes with a few shards, recorded while each of them works on one register.
type live struct {
	*clustertest.Cluster
	t    *testing.T
	rec  *Recorder
	text bytes.Buffer
	end  context.CancelFunc
	wg   sync.WaitGroup

	sampleCounts []*atomic.Int64 // by node: number of samples
}

// newLive starts the nodes; alter may replace the Node by which each is sampled.
func newLive(t *testing.T, alter func(Node) Node) *live {
	l := &live{Cluster: clustertest.New(t, 3, clustertest.WithTTL(5), clustertest.WithConfig(func(_ int,
		cfg *cluster.Config) {
		cfg.Sharding = cluster.Sharding{Shards: liveShards, Window: 20 * time.Millisecond}
	})), t: t}
	l.rec = NewRecorder(&l.text, "test")
	ctx, cancel := context.WithCancel(context.Background())
	l.end = cancel
	for i, n := range l.Nodes() {
		l.sampleNode(alter(NodeOf(liveName(i), n.Cluster()).WithShards(n.Cluster())))
		g := l.rec.Register(liveName(i), l.Client(), key)
		l.wg.Go(func() { g.Work(ctx, 5*time.Millisecond, TermOf(n.Cluster())) })
	}
	now, err := l.Client().Get(ctx, key)
	require.NoError(t, err)
	l.wg.Go(func() {
		if err := l.rec.Register("etcd", l.Client(), key).Follow(ctx, now.Header.Revision+1); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		cancel()
		l.wg.Wait()
		_ = l.rec.Stop()
	})
	return l
}

// sampleNode adds a node to the recording.
func (l *live) sampleNode(n Node) {
	asked, leads := &atomic.Int64{}, n.Leads
	n.Leads = func() (bool, int64) {
		defer asked.Add(1)
		return leads()
	}
	l.sampleCounts = append(l.sampleCounts, asked)
	l.rec.Add(n)
}

// waitSampled waits until every node was sampled a few more times.
func (l *live) waitSampled() {
	for _, asked := range l.sampleCounts {
		before := asked.Load()
		l.Eventually(func() bool { return asked.Load() > before+3 }, "the recorder samples")
	}
}

func liveName(i int) string { return fmt.Sprint("node", i) }

// resign makes the leader give way, and waits until it has queued again.
func (l *live) resign() {
	leader := l.WaitLeader()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	require.NoError(l.t, leader.Cluster().Resign(ctx))
	l.Eventually(func() bool {
		queue := leader.Cluster().Status().Queue
		return len(queue) == 3 && queue[2] == leader.Address()
	}, "who resigned queues at the tail")
}

// waitServed waits until every shard is served and that was sampled.
func (l *live) waitServed() {
	l.Eventually(func() bool {
		served := 0
		for _, n := range l.Nodes() {
			served += int(n.Cluster().Status().Shards.Serving)
		}
		return served == liveShards
	}, "every shard is served")
	l.waitSampled()
}

// finish ends the recording and returns the history.
func (l *live) finish() History {
	l.end()
	l.wg.Wait()
	require.NoError(l.t, l.rec.Stop())
	h, err := Read(&l.text)
	require.NoError(l.t, err)
	return h
}

func TestLeaderChangesAreClean(t *testing.T) {
	t.Parallel()
	l := newLive(t, unchangedNode)
	for range 4 {
		l.resign()
	}
	l.waitServed()
	first := l.WaitLeader()
	end := l.rec.BeginFault(first.Address(), "cut off", "")
	first.Faults().CutOff()
	l.Eventually(func() bool { return !first.IsLeader() }, "who is cut off stops leading")
	// Its shards are then served on another session, whatever was sampled in between.
	l.Eventually(func() bool { return first.Lease() == 0 }, "and has no session any more")
	first.Faults().Reconnect()
	end()
	l.WaitAgreed()
	l.waitServed()
	v := Check(l.finish(), Limits{})
	require.True(t, v.OK(), v)
	require.GreaterOrEqual(t, v.Seen.Terms, 5)
	require.Positive(t, v.Seen.Accepted)
	require.Positive(t, v.Seen.Entries)
	require.Equal(t, 1, v.Seen.Marks)
	require.Equal(t, liveShards, v.Seen.Shards)
	require.Greater(t, v.Seen.Ownerships, liveShards, "who was cut off served none meanwhile")
	t.Log(v)
}

func unchangedNode(n Node) Node { return n }

// TestNodeThatAlwaysSaysYesIsFound adds a node that always claims to lead.
func TestNodeThatAlwaysSaysYesIsFound(t *testing.T) {
	l := newLive(t, unchangedNode)
	l.sampleNode(Node{Name: "fake", Leads: func() (bool, int64) { return true, 1 }})
	l.WaitLeader()
	l.waitSampled()
	l.resign()
	l.waitSampled()
	v := Check(l.finish(), Limits{})
	require.Equal(t, []Kind{Overlap, Overlap}, kinds(v.Findings), "with the first term and with the second\n%v", v)
	for _, f := range v.Findings {
		require.Equal(t, "fake", f.Terms[0].Node)
	}
	t.Log(v)
}

// TestNodeThatSaysYesTooLongIsFound checks a node that stops claiming to lead only when the next one leads.
func TestNodeThatSaysYesTooLongIsFound(t *testing.T) {
	var stubborn atomic.Bool
	stubborn.Store(true)
	l := newLive(t, func(n Node) Node {
		honest, last := n.Leads, int64(0)
		n.Leads = func() (bool, int64) {
			yes, token := honest()
			switch {
			case yes:
				last = token
			case last != 0 && stubborn.Load():
				return true, last
			}
			return yes, token
		}
		return n
	})
	l.waitSampled()
	l.resign()
	l.waitSampled()
	stubborn.Store(false)
	l.waitSampled()
	v := Check(l.finish(), Limits{})
	require.Equal(t, []Kind{Overlap}, kinds(v.Findings), v)
}

// TestRevokedLeaseIsExempt checks an out-of-band change. The old leader has a frozen watch and no renewals, and
// continues until its deadline. Its writes are refused meanwhile.
func TestRevokedLeaseIsExempt(t *testing.T) {
	t.Parallel()
	l := newLive(t, unchangedNode)
	old := l.WaitLeader()
	l.waitSampled()
	end := l.rec.BeginFault("node0", "watch frozen, renewals held up", "")
	old.Faults().FreezeWatch()
	old.Faults().StopRenewing()
	require.NoError(t, l.rec.Intervene("node0", LeaseRevoked, func() error { l.RevokeLease(old); return nil }))
	l.Eventually(func() bool { return l.Node(1).IsLeader() }, "the next one leads")
	l.waitSampled()
	l.Eventually(func() bool { return !old.IsLeader() }, "the old one has noticed")
	old.Faults().ThawWatch()
	old.Faults().ResumeRenewing()
	end()
	h := l.finish()

	v := Check(h, Limits{Exempt: map[string]time.Duration{LeaseRevoked: 10 * time.Second}})
	require.True(t, v.OK(), v)
	leaders, owners := 0, 0
	for _, f := range v.Exempt {
		require.Equal(t, "node0", f.Terms[0].Node)
		if f.Subject == Leadership {
			leaders++
		} else {
			owners++
		}
	}
	require.Equal(t, 1, leaders, v)
	require.Positive(t, owners, "it goes on serving its shards as well\n%v", v)
	require.Positive(t, v.LongestExempt())
	require.Positive(t, v.Seen.Refused)
	strict := Check(h, Limits{})
	require.Len(t, strict.FindingsOf(Overlap), 1+owners, "nothing is exempt of itself")
	require.Len(t, strict.Findings, 1+owners)
}

// unfencedTerm is a term with transactions that leave out the fence.
type unfencedTerm struct {
	token int64
	kv    clientv3.KV
}

func (u unfencedTerm) Token() int64                         { return u.token }
func (u unfencedTerm) Txn(ctx context.Context) clientv3.Txn { return u.kv.Txn(ctx) }

func TestUnfencedWriteOfAnOldTermIsFound(t *testing.T) {
	l := newLive(t, unchangedNode)
	old := l.WaitLeader().Cluster().Leader().Token
	l.resign()
	l.waitSampled()
	op := l.rec.Register("stray", l.Client(), key).Write(t.Context(), unfencedTerm{old, l.Client()})
	require.Equal(t, OutcomeAccepted, op.Outcome)
	v := Check(l.finish(), Limits{})
	require.Equal(t, []Kind{Stale}, kinds(v.Findings), v)
	require.Equal(t, op, v.Findings[0].Ops[len(v.Findings[0].Ops)-1])
	t.Log(v)
}
