//go:build unix

package chaos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/goverse/goverse/clustertest/fault"
	"github.com/goverse/goverse/integration/internal/leases"
	"github.com/goverse/goverse/internal/etcd"
	"github.com/goverse/goverse/internal/etcd/watchcache"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/history"
	"github.com/goverse/goverse/internal/wait"
)

const (
	// defaultNodes and defaultCallers are the numbers of nodes and of callers of objects.
	defaultNodes, defaultCallers = 5, 4
	// calmPatience limits the time, after the last fault, until the cluster has recovered.
	calmPatience = 30 * time.Second
)

// Config configures a world.
type Config struct {
	// TTL is the TTL of the sessions, in seconds.
	TTL int
	// Nodes is the number of nodes. Default: 5.
	Nodes int
	// Program is the program that the nodes run: a test binary of this package's users. Default: this one.
	Program string
	// Callers is the number of concurrent callers of objects, -1 for none. Default: 4.
	Callers int
	// EtcdMembers is the number of etcd's members, 1 or 3. Default: 3.
	EtcdMembers int
	// Hostile adds an outsider that attacks every node.
	Hostile bool
	// Decks is the number of decks. Each kind of fault occurs once in a deck, unless Members is set.
	Decks int
	// Bound makes each node reach one member of etcd; otherwise each reaches all of them.
	Bound bool
	// Members leaves out most kinds of faults, and makes faults at etcd's members more frequent.
	Members bool
	// RevokedApart exempts overlaps caused by leases that etcd itself has revoked although they were renewed;
	// otherwise they are failures.
	RevokedApart bool
	// DetectionOff turns crash detection off on every node.
	DetectionOff bool
	// SilenceTimeout is the silence time-out of every node. If it is not 0, it adds the kinds of faults that silence
	// nodes, and relays between each two nodes.
	SilenceTimeout time.Duration
	// Addresses returns n unused addresses.
	Addresses func(n int) []string
	// Etcd returns the command that runs one member of an etcd cluster, given its data directory, its client
	// and peer addresses, and the peer addresses of all members.
	Etcd func(dir, client, peer string, peers []string) (*exec.Cmd, error)
	// Dir is the directory for all data and records.
	Dir string
	// Log reports progress to the user.
	Log func(format string, args ...any)
}

// world is a running cluster with its relays, clients and recorders.
type world struct {
	cfg     Config
	dir     string
	members []*member
	nodes   []*chaosNode
	client  *clientv3.Client   // avoids the affected members
	mirror  *watchcache.Mirror // uses that client
	keys    state.Keys
	rec     *history.Recorder
	began   history.Instant
	file    *os.File
	cancel  context.CancelFunc
	wg      sync.WaitGroup

	avoidedMember atomic.Pointer[member] // the affected member of etcd
	leases        *leases.Watcher
	removals      *removals

	outside *outsideCallers // the callers of objects; nil before there are nodes
	hostile *attacker       // the attacker; nil without one

	etcdBusy sync.RWMutex // held by a fault at etcd; shared by faults that need etcd
}

// newWorld starts everything and waits until the cluster is calm.
func newWorld(ctx context.Context, cfg Config) (_ *world, err error) {
	cfg.EtcdMembers, cfg.Nodes = cmp.Or(cfg.EtcdMembers, 3), cmp.Or(cfg.Nodes, defaultNodes)
	cfg.Callers = max(cmp.Or(cfg.Callers, defaultCallers), 0)
	w := &world{cfg: cfg, dir: cfg.Dir, began: history.Now(), removals: newRemovals()}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.close())
		}
	}()
	if err := w.startEtcd(ctx); err != nil {
		return w, err
	}
	if w.keys, err = state.NewKeys(clusterPrefix); err != nil {
		return w, err
	}
	life, cancel := context.WithCancel(context.Background())
	w.cancel = cancel
	w.mirror = watchcache.New(watchcache.Config{Process: etcd.Process{Client: w.client, Keys: w.keys}})
	w.wg.Go(func() { _ = w.mirror.Run(life) })
	w.wg.Go(func() { w.followRemovals(life) })
	if w.file, err = os.Create(filepath.Join(w.dir, "faults.jsonl")); err != nil {
		return w, err
	}
	w.rec = history.NewRecorder(w.file, "faults")
	before, err := w.client.Get(ctx, registerKey)
	if err != nil {
		return w, err
	}
	if err := openFences(ctx, w.client); err != nil {
		return w, err
	}
	follow := func(r *history.Register) {
		w.wg.Go(func() {
			if err := r.Follow(life, before.Header.Revision+1); err != nil {
				cfg.Log("following a register: %v", err)
			}
		})
	}
	follow(w.rec.Register("faults", w.client, registerKey))
	for shard := range shardCount {
		follow(w.rec.ShardRegister("faults", w.client, shardRegister(shard), shard))
	}
	for _, name := range lockNames {
		follow(w.rec.Counter("faults", w.client, counterPrefix+name, name))
	}
	if err := w.startNodes(ctx); err != nil {
		return w, err
	}
	w.leases = w.watchLeases()
	if w.outside, err = newOutsideCallers(w.rec, w.nodes, cfg.Callers); err != nil {
		return w, err
	}
	if cfg.Hostile {
		w.hostile = newAttacker(w.nodes)
	}
	return w, w.awaitCalm(ctx)
}

func (w *world) startEtcd(ctx context.Context) error {
	members := w.cfg.EtcdMembers
	addresses := w.cfg.Addresses(2 * members)
	clients, peers := addresses[:members], addresses[members:]
	for i := range members {
		dir := filepath.Join(w.dir, fmt.Sprintf("etcd%d", i))
		w.members = append(w.members, &member{endpoint: clients[i], peer: peers[i], command: func() (*exec.Cmd, error) {
			return w.cfg.Etcd(dir, clients[i], peers[i], peers)
		}})
	}
	var ours []string
	for _, m := range w.members {
		if err := m.start(); err != nil {
			return err
		}
		var err error
		if m.ownRelay, err = fault.NewRelay(m.endpoint); err != nil {
			return err
		}
		ours = append(ours, m.ownRelay.Address())
	}
	var err error
	w.client, err = clientv3.New(clientv3.Config{Endpoints: ours, DialTimeout: 5 * time.Second, Logger: zap.NewNop()})
	if err != nil {
		return err
	}
	return errors.Join(w.awaitEtcdAnswers(ctx), w.awaitMembersJoined(ctx))
}

func (w *world) startNodes(ctx context.Context) error {
	listens := w.cfg.Addresses(w.cfg.Nodes)
	for i := range w.cfg.Nodes {
		n := &chaosNode{w: w, index: i, listen: listens[i], members: w.members, program: w.cfg.Program}
		if w.cfg.Bound {
			at := i % len(w.members)
			n.members = w.members[at : at+1]
		}
		var err error
		if n.entrance, err = fault.NewRelay(n.listen); err != nil {
			return err
		}
		w.nodes = append(w.nodes, n)
		for _, m := range n.members {
			l, err := fault.NewRelay(m.endpoint)
			if err != nil {
				return err
			}
			n.links = append(n.links, l)
		}
	}
	if w.cfg.SilenceTimeout > 0 {
		if err := w.openPaths(); err != nil {
			return err
		}
	}
	errs := make([]error, len(w.nodes))
	var wg sync.WaitGroup
	for i, n := range w.nodes {
		wg.Go(func() { errs[i] = n.start(ctx) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// awaitSnapshot waits until etcd's state, as seen by the parent, satisfies cond.
func (w *world) awaitSnapshot(ctx context.Context, within time.Duration, what string,
	cond func(*state.Snapshot) bool) (*state.Snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	s, err := w.mirror.Wait(ctx, cond)
	if err != nil {
		return nil, fmt.Errorf("not within %v: %s (%s)", within, what, w.describe())
	}
	return s, nil
}

// leader returns the node that leads according to etcd, or nil.
func (w *world) leader() *chaosNode {
	s := w.mirror.Snapshot()
	if s == nil {
		return nil
	}
	return w.nodeAt(s.Leader().Address)
}

func (w *world) nodeAt(address string) *chaosNode {
	i := slices.IndexFunc(w.nodes, func(n *chaosNode) bool { return n.address() == address })
	if i < 0 {
		return nil
	}
	return w.nodes[i]
}

// awaitCalm waits until the cluster has recovered: every node is registered and queued once, one of them leads, the
// shards are assigned evenly, and every node sees that and serves exactly its own shards. Then it waits until
// each node has acquired every lock, every effect has taken place, and every object has answered through every
// node.
func (w *world) awaitCalm(ctx context.Context) error {
	if err := w.awaitNodesCalm(ctx); err != nil {
		return err
	}
	return errors.Join(w.settled(ctx), w.outside.awaitAnswers(ctx))
}

func (w *world) awaitNodesCalm(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, calmPatience)
	defer cancel()
	if err := errors.Join(w.awaitEtcdAnswers(ctx), w.awaitMembersJoined(ctx)); err != nil {
		return err
	}
	if _,
		err := w.awaitSnapshot(ctx, calmPatience, "every node is registered and queued once, and the shards are assigned "+
		"evenly", w.isComplete); err != nil {
		return err
	}
	for _, n := range w.nodes {
		for {
			st, err := n.status(ctx)
			if err != nil {
				return err
			}
			if st.Ready && len(st.Nodes) == len(w.nodes) && len(st.Queue) == len(w.nodes) &&
				st.LeaderID == w.mirror.Snapshot().Leader().Address &&
				maps.Equal(st.Serves, ownedShards(w.mirror.Snapshot(), n.address())) {
				break
			}
			if !wait.For(ctx, pollInterval) {
				return fmt.Errorf("node %d does not see the cluster as it is: %+v (%s)", n.index, st, w.describe())
			}
		}
	}
	return nil
}

// isComplete reports whether each node is registered, and queued with its current session, and the shards are at
// rest.
func (w *world) isComplete(s *state.Snapshot) bool {
	if len(s.Members) != len(w.nodes) || len(s.Queue) != len(w.nodes) || s.Acting != nil {
		return false
	}
	if slices.ContainsFunc(s.Accusations, func(a *state.Accusation) bool { return !a.Removed }) {
		return false // marks of removals stand for some seconds
	}
	for _, n := range w.nodes {
		m := s.Member(n.address())
		if m == nil {
			return false
		}
		if c, _ := s.CandidateOn(m.Lease); c == nil {
			return false
		}
	}
	return shardsAtRest(s)
}

// describe returns one line about etcd's state and the processes.
func (w *world) describe() string {
	out := "etcd shows nothing"
	if s := w.mirror.Snapshot(); s != nil {
		out = fmt.Sprintf("etcd at revision %d (stale %t):", s.Revision, s.Stale)
		for _, m := range s.Members {
			out += fmt.Sprintf(" %s[%d]", m.Address, m.Incarnation)
		}
		out += ", queue"
		for _, c := range s.Queue {
			out += " " + c.Address
		}
		out += fmt.Sprintf(", %d accusations", len(s.Accusations))
		if m := s.ShardMap; m != nil && m.Map != nil {
			out += fmt.Sprintf(", shards of generation %d: %v", m.Generation(), m.Loads())
		}
	}
	for _, n := range w.nodes {
		out += fmt.Sprintf("; node %d %s %s", n.index, n.address(), n.state())
	}
	return out
}

// stop ends the calls, then stops the nodes gracefully while the attacks continue.
func (w *world) stop(ctx context.Context) error {
	w.outside.stopCalls()
	errs := make([]error, len(w.nodes), len(w.nodes)+1)
	var wg sync.WaitGroup
	for i, n := range w.nodes {
		wg.Go(func() { errs[i] = n.terminate(ctx) })
	}
	wg.Wait()
	if w.hostile != nil {
		w.cfg.Log("a hostile outsider: %v", w.hostile)
		errs = append(errs, w.hostile.checkAllAttacked())
	}
	return errors.Join(errs...)
}

// close ends everything that still runs.
func (w *world) close() error {
	var errs []error
	if w.hostile != nil {
		w.hostile.stopAttacks()
	}
	if w.outside != nil {
		errs = append(errs, w.outside.close())
	}
	for _, n := range w.nodes {
		if n.entrance != nil {
			errs = append(errs, n.close())
		}
	}
	if w.leases != nil {
		w.leases.End()
	}
	if w.cancel != nil {
		w.cancel()
	}
	w.wg.Wait()
	if w.rec != nil {
		errs = append(errs, w.rec.Stop())
	}
	if w.file != nil {
		errs = append(errs, w.file.Close())
	}
	if w.client != nil {
		_ = w.client.Close() // the error reports only the cancelled context
	}
	for _, m := range w.members {
		errs = append(errs, m.close())
	}
	return errors.Join(errs...)
}
