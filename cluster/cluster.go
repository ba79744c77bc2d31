package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/go-hclog"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/consensusmanager"
	"github.com/goverse/goverse/cluster/session"
	"github.com/goverse/goverse/internal/crash/suspicion"
	"github.com/goverse/goverse/internal/etcd"
	"github.com/goverse/goverse/internal/etcd/connect"
	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/etcd/watchcache"
	"github.com/goverse/goverse/internal/eventlog"
	"github.com/goverse/goverse/internal/lifecycle"
	"github.com/goverse/goverse/internal/member"
	"github.com/goverse/goverse/internal/member/inspect"
	"github.com/goverse/goverse/internal/member/membership"
	"github.com/goverse/goverse/internal/member/registration"
	"github.com/goverse/goverse/internal/objects/host"
	"github.com/goverse/goverse/internal/objects/hosted"
	"github.com/goverse/goverse/internal/peer"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/internal/state/format"
	"github.com/goverse/goverse/internal/wait"
	"github.com/goverse/goverse/node"
)

// Errors returned while a cluster does not run. Test for them with errors.Is.
var (
	// ErrNotStarted is returned by methods that need a started cluster until Start has returned.
	ErrNotStarted = lifecycle.ErrNotStarted
	// ErrStarted is returned by a second Start: a cluster starts once.
	ErrStarted = errors.New("a cluster starts once; make a new one with NewClusterWithNode")
	// ErrStopped is returned once the node stops or has stopped, or after its Start has failed.
	ErrStopped = lifecycle.ErrStopped
	// ErrAddressTaken is returned by Start when another living node is registered at the node's address.
	ErrAddressTaken = membership.ErrAddressTaken
	// ErrFormat is returned by Start when the cluster uses a format that this release of Goverse does not read, and
	// matched by the errors about records in such a format. The process has then written nothing. See FormatError.
	ErrFormat = format.ErrFormat
)

// FormatError holds what is in a format that this process does not read, that format, and those that it reads. It
// matches ErrFormat. Its text names both releases, as far as they are known, and the remedy.
type FormatError = format.Error

// UnfinishedError is returned by a list (of elections, locks or effects) if ctx reached its deadline before
// everything was read. The items read until then are returned with it. To go on, set the next Query's After to
// the error's.
type UnfinishedError = lifecycle.UnfinishedError

// Cluster is one node's membership in a cluster, and gives access to everything built on it. All methods are safe
// for concurrent use, at any time. Methods that need a running node return [ErrNotStarted] until Start has
// returned, and [ErrStopped] after Stop; those without an error return zero values. The handles
// ([Cluster.Shards], [Cluster.Locks], ...) are never nil. They can be obtained and kept as soon as
// NewClusterWithNode has returned.
type Cluster struct {
	access // for package inspect

	cfg  Config
	keys state.Keys
	node *peer.Node
	log  hclog.Logger
	// lookup resolves a host to its addresses; tests replace it.
	lookup membership.LookupHost

	view     atomic.Pointer[watchcache.Mirror] // nil until Start has created it; already set while the node joins
	parts    atomic.Pointer[nodeParts]         // nil before Start has returned, and after Stop
	finished atomic.Bool                       // Stop has returned, or Start has failed

	services []hosted.Service // guarded by mu before Start, constant afterwards

	consensus   *ConsensusManager
	shards      Shards
	elections   Elections
	early       earlyCandidacies
	locks       Locks
	effects     Effects
	checkpoints Checkpoints
	objects     *hosted.Handle
	events      Events
	history     history

	mu      sync.Mutex
	phase   clusterPhase
	stopped chan struct{} // closed when Stop is done
	stopErr error
}

type access = inspect.Access

type clusterPhase int

const (
	phaseNew clusterPhase = iota
	phaseStarting
	phaseRunning
	phaseStopping
	phaseEnded
)

// nodeParts holds the pieces of a running node.
type nodeParts struct {
	*member.Member // the parts below are built on it
	client         *clientv3.Client
	work           exclusiveWork
	objects        *objectParts
	events         *eventlog.Log

	tracked *wait.Group // of the parts built on the member; ends with ErrStopped

	leaders   leaderTimes
	sightings sightings
	silences  silenceReports
}

// NewClusterWithNode checks the configuration and returns a cluster for the node. The node must not be started,
// nor belong to another cluster. Nothing runs before Start, which also starts the node.
func NewClusterWithNode(cfg Config, n *node.Node) (*Cluster, error) {
	if n == nil {
		return nil, fmt.Errorf("%w: the node is nil; make one with node.NewNode", ErrBadConfig)
	}
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	keys, err := state.NewKeys(cfg.EtcdPrefix)
	if err != nil {
		return nil, err
	}
	cfg.Sharding.Exclude = maps.Clone(cfg.Sharding.Exclude)
	c := &Cluster{cfg: cfg, keys: keys, node: (*peer.Node)(n), log: cfg.Logger, lookup: net.DefaultResolver.LookupHost,
		stopped: make(chan struct{})}
	c.shards, c.elections = Shards{c}, Elections{c}
	c.consensus = consensusmanager.New(func() (*consensusmanager.Runner, error) {
		p, err := c.runningParts()
		if err != nil {
			return nil, err
		}
		return p.Consensus, nil
	})
	c.locks, c.effects, c.checkpoints, c.objects = Locks{c}, Effects{c}, Checkpoints{c}, hosted.NewHandle(objectCalls{c})
	c.events = Events{c}
	c.access = func() *member.Member {
		if p := c.parts.Load(); p != nil {
			return p.Member
		}
		return nil
	}
	return c, nil
}

// Node returns the node that the cluster was created with.
func (c *Cluster) Node() *node.Node { return (*node.Node)(c.node) }

// sessionValid reports whether this node's session is valid now.
func (p *nodeParts) sessionValid() bool {
	s := p.Keeper.Current()
	return s != nil && s.Valid()
}

// newRecord returns the record that this node registers in etcd.
func (c *Cluster) newRecord() state.Record {
	return state.Record{InstanceID: c.node.InstanceID(), WatchKey: c.node.WatchKey(), HTTPAddress: c.cfg.HTTPAddress,
		Version: c.cfg.Version,
		Labels:  c.cfg.Labels, Shards: c.cfg.Sharding.publishedCount(), Weight: c.cfg.Weight, Observer: c.cfg.Observer}
}

// newParts creates the parts and starts none of them. Of ctx, which is Start's, only values are used.
func (c *Cluster) newParts(ctx context.Context, client *clientv3.Client) (*nodeParts, error) {
	p := &nodeParts{client: client, objects: &objectParts{services: host.NewServices(c.services)},
		tracked: wait.NewGroup()}
	nodes := watchDialer{node: c.node, opts: c.cfg.DialOptions}
	process := etcd.Process{Client: client, Keys: c.keys, Address: c.node.AdvertiseAddress(),
		RequestTimeout: c.cfg.RequestTimeout, Logger: c.log}
	config := member.Config{Process: process, Settings: c.managerSettings(p.objects), TTL: ttlOf(c.cfg),
		Record: c.newRecord(), Detection: suspicion.Settings(c.cfg.CrashDetection), Dialer: nodes,
		WatcherLost: c.node.WatcherLost(), Identify: nodes.identify,
		OnLost: func(s *etcdsession.Session, lost *session.LostError) {
			p.events.ReportSessionLost(int64(s.ID()), s.Deadline(), lost)
		},
		Explain: func(err error) error {
			return c.cfg.connectConfig(connect.SettingNamesOf(ctx)).Explain(context.WithoutCancel(ctx), err,
				registration.RequiredRights(c.keys))
		}}
	var err error
	if p.Member, err = member.New(config); err != nil {
		return nil, err
	}
	c.view.Store(p.Mirror)
	c.node.SetArmer(p.Detector)
	if p.work, err = c.newExclusiveWork(process, p.Mirror, p.Keeper); err != nil {
		return nil, err
	}
	p.events = eventlog.New(eventlog.Config{Process: process.Named("events"), Mirror: p.Mirror,
		Election: p.Consensus.Election(), Valid: p.sessionValid, Off: c.cfg.Events.Off, Max: c.cfg.Events.Max,
		MaxAge: c.cfg.Events.MaxAge})
	return p, c.completeObjects(p)
}

// runningParts returns the parts of a running node. The error is ErrNotStarted or ErrStopped.
func (c *Cluster) runningParts() (*nodeParts, error) {
	switch p := c.parts.Load(); {
	case p != nil:
		return p, nil
	case c.finished.Load():
		return nil, ErrStopped
	}
	return nil, ErrNotStarted
}
