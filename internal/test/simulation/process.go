package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/consensusmanager"
	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/internal/crash"
	"github.com/goverse/goverse/internal/crash/heartbeat"
	"github.com/goverse/goverse/internal/etcd"
	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/member"
	"github.com/goverse/goverse/internal/member/registration"
	"github.com/goverse/goverse/internal/sharding/shardplan"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/test/modeletcd"
	"github.com/goverse/goverse/internal/test/schedule"
	"github.com/goverse/goverse/internal/wait"
)

// The time-outs of the simulated members are the defaults of a cluster.
const (
	requestTimeout = 2 * time.Second
	workTimeout    = 5 * time.Second
)

// process is one process with one node, or with a part in the election only. It has its own connections to etcd and to
// others.
type process struct {
	w    *world
	host *host
	id   string // the instance id
	conn *modeletcd.Conn

	part       part // what it runs
	registered *registration.Registration
	election   *leaderelection.LeaderElection
	shards     *consensusmanager.Shards // nil if it has none

	client *clientv3.Client
	node   *nodeNetwork    // the network side
	armer  heartbeat.Armer // nil if it arms no watchers

	ctx           context.Context // ends when the process dies
	cancel        context.CancelFunc
	running       context.Context // ends when the process is asked to stop, or dies
	stopRunning   context.CancelFunc
	wg            sync.WaitGroup // goroutines beside its member
	dead          atomic.Bool
	stopRequested bool          // it was asked to stop
	joined        bool          // it had joined before
	viewSince     time.Duration // since when it has a view; 0 if it has none

	randMu sync.Mutex
	rand   *rand.Rand // for retries

	user  nodeUser
	facts processFacts
}

// part is what a process runs: a node, or a part in the election only.
type part interface {
	// join starts the part and blocks until it has joined the others.
	join(ctx context.Context) error
	// leave stops the part. It returns the last session, and the error because of which etcd did not confirm that its
	// keys are gone.
	leave() (last *etcdsession.Session, err error)
}

// startProcess runs a new process on the host.
func (h *host) startProcess() {
	w := h.w
	h.startCount++
	p := &process{w: w, host: h, id: fmt.Sprintf("%s#%d", h.address, h.startCount)}
	p.rand = schedule.NewRand(w.Seed, "retries", p.id)
	p.user, p.facts = newNodeUser(p), newProcessFacts(w)
	p.node = &nodeNetwork{p: p, watcherLost: wait.NewSignal(), newest: map[*process]uint64{}}
	p.conn = h.link.Connect(p.id, p.drawDelivery)
	p.conn.SetProxied(h.roles.proxied)
	p.client = p.conn.Client()
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.running, p.stopRunning = context.WithCancel(p.ctx)
	if h.roles.electionOnly {
		p.assembleElectionOnly()
	} else {
		p.assembleNode()
	}
	w.checks.recordStart(p)
	w.alter(func() { h.process = p })
	p.logf("starts")
	w.wg.Go(p.runMember)
}

// etcdProcess returns what all parts of the process share.
func (p *process) etcdProcess() etcd.Process {
	return etcd.Process{Client: p.client, Keys: p.w.keys, Address: p.host.address, RequestTimeout: requestTimeout,
		Clock: p.host.now, Random: p.drawFraction, Logger: logger{Logger: hclog.NewNullLogger(), p: p}}
}

// nodePart is a node.
type nodePart struct {
	p *process
	*member.Member
}

func (p *process) assembleNode() {
	m, err := member.New(p.nodeConfig())
	if err != nil {
		panic(err) // the configuration is valid
	}
	p.part, p.registered = nodePart{p, m}, m.Registration
	p.assembleArmer(m)
	p.election, p.shards = m.Consensus.Election(), m.Consensus.Shards()
}

// join implements part.
func (n nodePart) join(ctx context.Context) error {
	n.Start()
	if err := n.Join(ctx); err != nil {
		return err
	}
	n.StartDuties()
	return nil
}

func (p *process) nodeConfig() member.Config {
	w, r := p.w, p.host.roles
	c := member.Config{Process: p.etcdProcess(),
		Settings: consensusmanager.Settings{Observer: r.observer, Fallback: r.fallback, WorkTimeout: workTimeout,
			Planning: w.planSettings(r.shards), DrainTimeout: w.ttl, OnRelease: p.user.release},
		TTL: w.ttl, Record: state.Record{InstanceID: p.id, Shards: r.shards, Observer: r.observer},
		Detection: p.detection(), Dialer: p.node,
		WatcherLost: p.node.watcherLost, Identify: p.node.identify}
	if r.excluded {
		c.Record.Labels = excluded
	}
	if r.asked {
		c.OnAcquire = p.user.acquire
	}
	return c
}

// detection returns the settings of crash detection.
func (p *process) detection() crash.Settings {
	s := crash.Settings{Off: !p.w.crashDetection}
	if !p.host.roles.old {
		s.SilenceTimeout = p.w.silence
	}
	return s.WithDefaults()
}

// excluded are the labels of members that get no shards.
var excluded = map[string]string{"role": "gateway"}

func (w *world) planSettings(shards int) shardplan.Settings {
	return shardplan.Settings{Shards: shards, Window: w.window, MinMembers: 1, Exclude: excluded, Budget: 20 * w.shards}
}

func (p *process) drawFraction() float64 {
	p.randMu.Lock()
	defer p.randMu.Unlock()
	return p.rand.Float64()
}

// runMember runs the process until it has ended.
func (p *process) runMember() {
	err := p.part.join(p.running)
	if err == nil {
		p.w.alter(func() { p.joined = true })
		p.wg.Go(p.user.runUser)
		<-p.running.Done()
	}
	failed := p.running.Err() == nil // it cannot join, for example at an occupied address
	if failed {
		p.logf("gives up: %v", err)
	}
	p.stopPart()
	if failed {
		p.w.Mu.Lock()
		p.w.startAgain(p.host)
		p.w.Mu.Unlock()
	}
	p.wg.Wait()
}

// killProcess ends the process at once, as SIGKILL does. Its kernel closes its sockets unless the host is lost too. The
// caller holds w.Mu.
func (p *process) killProcess(withHost bool) {
	if p.dead.Swap(true) {
		return
	}
	p.logf("is gone")
	p.node.breakStreams(withHost)
	p.w.alter(func() { p.host.process = nil })
	p.host.link.Disconnect()
	p.conn.SetFrozen(true)
	p.cancel()
}

// leads reports whether the process leads, as LeaderElection.IsLeader does.
func (p *process) leads() bool { return p.election.IsLeader() }

// session returns the present session, or nil between two.
func (p *process) session() *etcdsession.Session { return p.registered.Keeper.Current() }

// drawDelay draws a duration up to d for an activity of the process.
func (p *process) drawDelay(what string, d time.Duration) time.Duration {
	return schedule.Between(schedule.NewRand(p.w.Seed, what, p.id), 0, d)
}
