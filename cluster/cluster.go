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
	"github.com/goverse/goverse/cluster/objects"
	"github.com/goverse/goverse/cluster/session"
	"github.com/goverse/goverse/internal/crash"
	"github.com/goverse/goverse/internal/etcd/connect"
	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/etcd/watchcache"
	"github.com/goverse/goverse/internal/eventlog"
	"github.com/goverse/goverse/internal/lifecycle"
	"github.com/goverse/goverse/internal/member"
	"github.com/goverse/goverse/internal/member/membership"
	"github.com/goverse/goverse/internal/state"
	"github.com/goverse/goverse/node"
)

// The errors of a cluster that does not run, to test for with errors.Is.
var (
	// ErrNotStarted: the method needs a started cluster, and Start has not returned yet.
	ErrNotStarted = lifecycle.ErrNotStarted
	// ErrStarted: a cluster starts once.
	ErrStarted = errors.New("a cluster starts once; make a new one with NewClusterWithNode")
	// ErrStopped: the node stops or has stopped, or its Start has failed.
	ErrStopped = lifecycle.ErrStopped
	// ErrAddressTaken: another living node is registered at this address.
	ErrAddressTaken = membership.ErrAddressTaken
)

// UnfinishedError is the error of a list (of elections, locks or effects) whose ctx reached its deadline before
// everything was read. What was found until then is returned with it, and the next Query's After is that of the error.
type UnfinishedError = lifecycle.UnfinishedError

// Cluster is one node's membership, and the way to all that is built on it. All methods are safe for
// concurrent use, at any time: what needs a running node answers with [ErrNotStarted] until Start has
// returned, and with [ErrStopped] once Stop has; methods without an error answer with nobody and nothing.
// Its handles ([Cluster.Shards], [Cluster.Locks], ...) are never nil, and can be kept from
// NewClusterWithNode on.
type Cluster struct {
	cfg  Config
	keys state.Keys
	node *node.Node
	log  hclog.Logger
	// lookup finds the addresses of a host; tests have their own.
	lookup membership.LookupHost

	view  atomic.Pointer[watchcache.Mirror] // nil until Start has made one; also while it joins
	parts atomic.Pointer[parts]             // nil before Start has returned, and after Stop
	over  atomic.Bool                       // Stop has returned, or Start has failed

	services []objects.Service // before Start: under mu; then they stay as they are

	consensus   ConsensusManager
	shards      Shards
	elections   Elections
	locks       locks
	effects     Effects
	checkpoints Checkpoints
	objects     Objects
	events      Events

	mu      sync.Mutex
	phase   phase
	stopped chan struct{} // closed when Stop is done
	stopErr error
}

type phase int

const (
	fresh phase = iota
	starting
	running
	stopping
	ended
)

// parts is what runs between Start and Stop.
type parts struct {
	client   *clientv3.Client
	core     *member.Core
	mirror   *watchcache.Mirror // the core's, as what follows
	keeper   *etcdsession.Keeper
	member   *membership.Membership
	manager  *consensusmanager.ConsensusManager
	detector *crash.Detector
	work     work
	objects  *hosting
	events   *eventlog.Log

	restCtx  context.Context         // ends with ErrStopped
	stopRest context.CancelCauseFunc // what is built on the core
	rest     sync.WaitGroup

	mu     sync.Mutex
	closed bool // nothing is added to rest any more

	leaders   leaderTimes
	sightings sightings
	silences  silences
}

// goRest runs f, which ends with its context, among the rest; it does not when that is being stopped.
func (p *parts) goRest(f func(ctx context.Context)) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.rest.Go(func() { f(p.restCtx) })
	return true
}

// joinRest makes the caller one of the rest, that ends with restCtx, until it calls left; it does not when that is
// being stopped.
func (p *parts) joinRest() (left func(), ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, false
	}
	p.rest.Add(1)
	return p.rest.Done, true
}

// closeRest ends all the rest and waits for it.
func (p *parts) closeRest() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.stopRest(ErrStopped)
	p.rest.Wait()
	p.core.Close()
}

// NewClusterWithNode checks the configuration and binds it to a node that is not
// started yet, and that no other cluster has. Nothing runs before Start, which starts the node, too.
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
	c := &Cluster{cfg: cfg, keys: keys, node: n, log: cfg.Logger, lookup: net.DefaultResolver.LookupHost,
		stopped: make(chan struct{})}
	c.consensus, c.shards, c.elections = ConsensusManager{c}, Shards{c}, Elections{c}
	c.locks, c.effects, c.checkpoints, c.objects = locks{c}, Effects{c}, Checkpoints{c}, Objects{c}
	c.events = Events{c}
	return c, nil
}

// Node is the node that was given.
func (c *Cluster) Node() *node.Node { return c.node }

// sessionValid reports whether this node's session is valid now.
func (p *parts) sessionValid() bool {
	s := p.keeper.Current()
	return s != nil && s.Valid()
}

// newRecord is what this node says of itself.
func (c *Cluster) newRecord() state.Record {
	return state.Record{InstanceID: c.node.InstanceID(), WatchKey: c.node.WatchKey(), HTTPAddress: c.cfg.HTTPAddress,
		Version: c.cfg.Version,
		Labels:  c.cfg.Labels, Shards: c.cfg.Sharding.count(), Weight: c.cfg.Weight, Observer: c.cfg.Observer}
}

// assemble makes the parts; nothing runs yet. ctx is of who starts them.
func (c *Cluster) assemble(ctx context.Context, client *clientv3.Client) (*parts, error) {
	p := &parts{client: client}
	nodes := dialer{node: c.node, opts: c.cfg.DialOptions}
	config := member.Config{Client: client, Keys: c.keys, TTL: ttlOf(c.cfg), RequestTimeout: c.cfg.RequestTimeout,
		WorkTimeout: c.cfg.WorkTimeout, Address: c.node.AdvertiseAddress(), Record: c.newRecord(), Observer: c.cfg.Observer,
		Fallback: c.cfg.Fallback == FallbackByName, Detection: c.cfg.CrashDetection.settings(), Dialer: nodes,
		WatcherLost: c.node.WatcherLost(), Identify: nodes.identify, Planning: c.cfg.Sharding.planning(),
		Shards: c.cfg.Sharding.part(),
		OnLost: func(s *etcdsession.Session, lost *session.LostError) {
			p.events.SessionLost(int64(s.ID()), s.Deadline(), lost)
		},
		Explain: func(err error) error {
			return c.cfg.reach(connect.WordsOf(ctx)).Explain(context.WithoutCancel(ctx), err, c.needs())
		},
		Logger: c.log}
	var err error
	if p.core, err = member.New(config); err != nil {
		return nil, err
	}
	p.mirror, p.keeper, p.member = p.core.Mirror, p.core.Keeper, p.core.Member
	c.view.Store(p.mirror)
	p.manager, p.detector = p.core.Manager, p.core.Detector
	if p.work, err = c.newWork(client, p.mirror, p.keeper); err != nil {
		return nil, err
	}
	p.events = eventlog.New(eventlog.Config{Client: client, Keys: c.keys, Mirror: p.mirror, Election: p.manager.Election(),
		Address: c.node.AdvertiseAddress(), Valid: p.sessionValid, Off: c.cfg.Events.Off, Max: c.cfg.Events.Max,
		MaxAge: c.cfg.Events.MaxAge, RequestTimeout: c.cfg.RequestTimeout, Logger: c.log.Named("events")})
	p.objects, err = c.newHosting(p)
	return p, err
}

// running are the parts of a node that runs; the error is ErrNotStarted or ErrStopped.
func (c *Cluster) running() (*parts, error) {
	switch p := c.parts.Load(); {
	case p != nil:
		return p, nil
	case c.over.Load():
		return nil, ErrStopped
	}
	return nil, ErrNotStarted
}
