//go:build linux

package integration

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/session"
	"github.com/goverse/goverse/integration/internal/leases"
	"github.com/goverse/goverse/integration/internal/procs"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/history"
)

const (
	// stutteringMember is the index of the member that leads etcd when a round begins.
	stutteringMember = 0
	// commandsLock is the lock of goversed lock.
	commandsLock = "commands"
	// stopTimeout is so short that the commands still run when etcd's leader resumes; with the default they
	// would have ended.
	stopTimeout = "100ms"
	// lostSession is the log's message about a lost session.
	lostSession = "the session is lost"
	// healTime limits the time until everything has recovered after a round.
	healTime = 45 * time.Second
)

// A side has the processes with the same path to etcd: side a through the stuttering member only, side b
// through the other two. The names of its processes in histories begin with their kind.
type side struct {
	name   string
	etcd   string
	node   *procs.Node // goversed with default settings
	worker *procs.Node // in the workers' own cluster; acquires the lock
	beats  *workBench  // output of the commands under goversed lock
}

// stutterWorld is three members of etcd and two sides.
type stutterWorld struct {
	*testing.T
	stutter
	members *procs.Members
	a, b    *side
	work    state.Keys      // keys of the workers' cluster
	nodes   state.Keys      // keys of the goversed nodes' cluster
	dir     string          // for the workers' recordings
	asked   *leadershipPoll // answers of the goversed nodes
	leases  *leases.Watcher
	rounds  []history.Instant // start of each round

	stutteringID uint64 // etcd's id of the stuttering member
}

func newStutterWorld(t *testing.T, flavour procs.Flavour, s stutter) *stutterWorld {
	w := &stutterWorld{T: t, stutter: s, members: kit.StartMembers(t, flavour, 3, s.election), dir: t.TempDir()}
	var err error
	w.nodes, err = state.NewKeys(procs.Prefix)
	require.NoError(t, err)
	w.work, err = state.NewKeys(workPrefix)
	require.NoError(t, err)
	others := strings.Join(w.members.Endpoints[stutteringMember+1:], ",")
	w.a, w.b = w.side("a", w.members.Endpoints[stutteringMember]), w.side("b", others)
	w.members.MoveLeaderTo(t, stutteringMember)
	st, err := w.members.Status(t.Context(), stutteringMember)
	require.NoError(t, err)
	w.stutteringID = st.Header.MemberId
	for _, s := range []*side{w.a, w.b} {
		s.node = kit.StartNode(t, procs.NodeConfig{Etcd: s.etcd, TTL: w.ttl})
		s.node.AwaitStatus(t, healTime, "is ready", ready)
		s.worker = w.startWorker(s)
		s.worker.AwaitStatus(t, healTime, "is ready", ready)
	}
	w.asked = pollLeadership(t, map[string]*procs.Node{ofNodes + w.a.name: w.a.node, ofNodes + w.b.name: w.b.node})
	w.leases = watchLeases(w)
	return w
}

func (w *stutterWorld) side(name, etcd string) *side {
	return &side{name: name, etcd: etcd, beats: &workBench{T: w.T, etcd: etcd, dir: w.TempDir(), name: commandsLock}}
}

// startWorker starts the worker of a side.
func (w *stutterWorld) startWorker(s *side) *procs.Node {
	addresses := kit.Addresses(w, 2)
	self, err := os.Executable()
	require.NoError(w, err)
	cfg := stutterWorkerConfig{Name: ofWorkers + s.name, Advertise: addresses[0], HTTP: addresses[1], Etcd: s.etcd,
		TTL:    int(w.ttl / time.Second),
		Record: filepath.Join(w.dir, s.name+".jsonl")}
	p := kit.Start(w, "worker "+s.name, self, nil, []string{stutterWorkerEnv + "=" + cfg.encode(w)})
	return kit.NodeAt(w, p, addresses[0], addresses[1])
}

func ready(st procs.Status) error { return equal("cluster_ready", st.ClusterReady, true) }

// round makes etcd's leader stutter once. Before that it waits until all is well.
func (w *stutterWorld) round() {
	w.prepareRound()
	// The renewals of side a come at a random time before it.
	procs.SleepUntil(time.Now().Add(time.Duration(rand.Int64N(int64(w.ttl / 3)))))
	w.rounds = append(w.rounds, history.Now())
	m := w.members.Processes[stutteringMember]
	w.Cleanup(func() { _, _ = m.Process.Thaw() }) // it may have ended
	for _, step := range []struct{ frozen, awake time.Duration }{{w.first, w.awake}, {w.second, 0}} {
		began := m.Freeze(w)
		procs.SleepUntil(began.Add(step.frozen))
		procs.SleepUntil(m.Thaw(w).Add(step.awake))
	}
	// The effects of the last step are seen while everything recovers.
	w.endCommands()
	w.members.AwaitHealthy(w)
	w.awaitBothSides()
}

// prepareRound establishes the start of a round: the first member leads etcd; side a leads both clusters, owns shards
// and holds both locks; side b waits for all of them.
func (w *stutterWorld) prepareRound() {
	w.members.MoveLeaderTo(w, stutteringMember)
	w.awaitBothSides()
	for _, of := range []struct {
		prefix string
		a      *procs.Node
	}{{procs.Prefix, w.a.node}, {workPrefix, w.a.worker}} {
		if st, err := of.a.Status(requestContext(w.T)); err != nil || !st.IsLeader {
			kit.Goversed(w, "resign", "--etcd", w.b.etcd, "--prefix", of.prefix).Exit(w, healTime)
		}
		of.a.AwaitStatus(w, healTime, "leads", leads)
	}
	if w.holder(w.work) != w.a.worker.Address {
		w.b.worker.Signal(w, syscall.SIGUSR1) // it releases the lock
	}
	procs.Await(w, healTime, "a's worker holds the lock, b's waits", func() error {
		return errors.Join(equal("holder", w.holder(w.work), w.a.worker.Address), equal("queued", len(w.queue(w.work)), 2))
	})
	procs.Await(w, healTime, "a's worker serves shards", func() error {
		n, err := w.a.worker.Metric(requestContext(w.T), "goverse_shards_serving")
		if err == nil && n == 0 {
			err = errNotYet
		}
		return err
	})
	w.startCommands()
}

// awaitBothSides waits until the nodes and the workers are all members and queued.
func (w *stutterWorld) awaitBothSides() {
	for _, n := range []*procs.Node{w.a.node, w.b.node, w.a.worker, w.b.worker} {
		n.AwaitStatus(w, healTime, "both are there", func(st procs.Status) error {
			return errors.Join(ready(st), equal("queued", len(st.Queue), 2), equal("registered", len(st.Nodes), 2))
		})
	}
}

// startCommands starts a command under the lock on each side; that of a runs, that of b waits. If a session is
// lost meanwhile on a busy machine, it starts them again.
func (w *stutterWorld) startCommands() {
	for began := time.Now(); ; {
		if w.tryCommands() {
			break
		}
		w.endCommands()
		if time.Since(began) > healTime {
			w.Fatalf("not within %v: a command runs under the lock, another waits", healTime)
		}
	}
	for i, kv := range w.queue(w.nodes) {
		w.leases.SetOwner(clientv3.LeaseID(kv.Lease), ofCommands+[]*side{w.a, w.b}[i].name)
	}
}

// tryCommands starts the commands and reports whether both are there.
func (w *stutterWorld) tryCommands() bool {
	before := newest(readWorkPeriods(w.T, w.a.beats.dir))
	for i, s := range []*side{w.a, w.b} {
		args := []string{"lock", commandsLock, "--etcd", s.etcd, "--prefix", procs.Prefix, "--ttl", w.ttl.String(),
			"--stop-timeout", stopTimeout, "--"}
		s.beats.running = kit.Goversed(w, append(args, s.beats.command()...)...)
		procs.Await(w, healTime, "a command runs, another waits", func() error {
			runs := newest(readWorkPeriods(w.T, w.a.beats.dir)) > before
			if len(w.queue(w.nodes)) != i+1 || !runs {
				if w.a.beats.running.Running() && s.beats.running.Running() {
					return errNotYet
				}
			}
			return nil
		})
	}
	return w.a.beats.running.Running() && w.b.beats.running.Running()
}

// endCommands ends the commands. By then the command of b runs, and that of a has lost the lock.
func (w *stutterWorld) endCommands() {
	for _, s := range []*side{w.a, w.b} {
		if p := s.beats.running; p != nil {
			require.NoError(w, p.Close()) // the guard ends the command
		}
	}
	procs.Await(w, healTime, "nothing is left of the commands",
		func() error { return equal("queued", len(w.queue(w.nodes)), 0) })
}

// queue returns the waiters for the lock of a cluster, in order.
func (w *stutterWorld) queue(keys state.Keys) (out []queued) {
	ctx, cancel := context.WithTimeout(w.Context(), time.Second)
	defer cancel()
	resp, err := w.members.Client(stutteringMember+1).Get(ctx, keys.Locks().Root(), clientv3.WithPrefix(),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
	if err != nil {
		return nil
	}
	for _, kv := range resp.Kvs {
		if _, ok := keys.Locks().QueueOf(string(kv.Key)); ok {
			out = append(out, queued{string(kv.Value), kv.Lease})
		}
	}
	return out
}

// queued is one place in the queue of a lock.
type queued struct {
	Owner string
	Lease int64
}

// holder returns the owner of the first place in the queue.
func (w *stutterWorld) holder(keys state.Keys) string {
	if all := w.queue(keys); len(all) > 0 {
		return all[0].Owner
	}
	return ""
}

// newest returns the largest token.
func newest(of []workPeriod) (token int64) {
	for _, s := range of {
		token = max(token, s.token)
	}
	return token
}

// judge ends the workers and returns the verdict on everything observed.
func (w *stutterWorld) judge() tally {
	for _, s := range []*side{w.a, w.b} {
		s.worker.Signal(w, syscall.SIGTERM)
		require.Zero(w, s.worker.Exit(w, healTime), "a worker failed")
	}
	marks := w.leases.End()
	workers, err := history.ReadFiles(filepath.Join(w.dir, w.a.name+".jsonl"), filepath.Join(w.dir, w.b.name+".jsonl"))
	require.NoError(w, err)
	nodes, commands := w.asked.stopPoll(), history.History{}
	for _, s := range []*side{w.a, w.b} {
		for _, st := range readWorkPeriods(w.T, s.beats.dir) {
			commands.Runs = append(commands.Runs, st.run(ofCommands+s.name))
		}
	}
	limits := history.Limits{Silent: healTime, Unserved: healTime,
		Exempt: map[string]time.Duration{history.RevokedByEtcd: w.ttl}}
	out := newTally()
	out.rounds = len(w.rounds)
	for _, n := range []*procs.Node{w.a.node, w.b.node, w.a.worker, w.b.worker} {
		for line := range strings.Lines(n.Output()) {
			if strings.Contains(line, lostSession) && (strings.Contains(line, string(session.ReasonRevoked)) ||
				strings.Contains(line, string(session.ReasonKeyLost))) {
				out.revoked++
				w.Log(strings.TrimSpace(line))
			}
		}
	}
	for _, h := range []struct {
		of string
		history.History
	}{{ofNodes, nodes}, {ofWorkers, workers}, {ofCommands, commands}} {
		h.Marks = append(h.Marks, marks...)
		for i, from := range w.rounds { // silence and unserved shards during a round are not judged
			to := history.Instant(0)
			if i+1 < len(w.rounds) {
				to = w.rounds[i+1]
			}
			h.Marks = append(h.Marks, history.Mark{Process: "stutter", ID: int64(i), Name: "stutter", From: from, To: to})
		}
		v := history.Check(h.History, limits)
		for _, f := range append(v.FindingsOf(history.Overlap), v.Exempt...) {
			w.Logf("%vfor %v, excused %t: %s", w.describeTime(f.From), f.Length(), f.Mark != nil, f.Text)
		}
		out.take(w.Name()+" ", h.of, v, w.rounds)
	}
	for _, m := range marks {
		w.Logf("%v%s: %s", w.describeTime(m.To), m.Node, m.Text)
	}
	return out
}

// describeTime returns a description of a time: its round, and the time since the round began.
func (w *stutterWorld) describeTime(at history.Instant) string {
	round, _ := slices.BinarySearch(w.rounds, at)
	if round == 0 {
		return "before the first round: "
	}
	return fmt.Sprintf("round %d, after %v: ", round, at.Sub(w.rounds[round-1]).Round(time.Millisecond))
}

// These kinds of claims are distinguished.
const (
	ofNodes    = "goversed "
	ofWorkers  = "worker "
	ofCommands = "goversed lock "
)

// subjects lists the things that two sides can claim at the same time.
var subjects = []string{ofNodes + claimKind(history.Leadership), ofWorkers + claimKind(history.Leadership), ofWorkers +
	claimKind(history.Shard(0)),
	ofWorkers + claimKind(history.Lock("")), ofCommands + claimKind(history.Lock(""))}

// run returns the time in which a command worked, as a claim to the lock.
func (s workPeriod) run(node string) history.Run {
	from, to := history.Instant(s.from), history.Instant(s.to)
	return history.Run{NodeLife: history.NodeLife{Process: fmt.Sprint(s.pid), Node: node},
		Subject: history.Lock(commandsLock),
		Leads:   true, Token: s.token,
		First: history.Window{Before: from, After: from}, Last: history.Window{Before: to, After: to}, Count: 2}
}
