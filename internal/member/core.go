// Package member assembles what makes a process a member of the cluster: its view of it, its session and
// registration, crash detection, its part in the election and in the shards. Package cluster runs it beside a
// node that serves, with all that is built on it; the simulation runs it as it is.
//
//	New ──► Start ──► Join ──► Manager.Run
//	                             │
//	MarkStopping ◄───────────────┘
//	  └─► Manager.Withdraw ──► HandOver ──► Relinquish ──► Detector.Stop ──► MarkLeft ──► Leave ──► Close
//
// Each step of a stop is bounded, and can be left out: the steps after it do what is left, and what is left
// in etcd goes with the session.
//
// Not promised: anything about what others reach this process by. Who listens, and who says goodbye to
// the watchers of this member, is the caller's.
package member

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/consensusmanager"
	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/cluster/session"
	"github.com/goverse/goverse/internal/crash"
	"github.com/goverse/goverse/internal/etcd/deadline"
	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/etcd/watchcache"
	"github.com/goverse/goverse/internal/member/membership"
	"github.com/goverse/goverse/internal/sharding/shardplan"
	"github.com/goverse/goverse/internal/state"
)

// What Config.RequestTimeout and Config.WorkTimeout are where nobody says otherwise.
const (
	DefaultRequestTimeout = 2 * time.Second
	DefaultWorkTimeout    = 5 * time.Second
)

// Config is what a core is made of. All is needed unless it says otherwise.
type Config struct {
	Client *clientv3.Client
	// Keys are the cluster's.
	Keys state.Keys
	// TTL is the session's, RequestTimeout bounds a request to etcd, WorkTimeout the wait for work that is to end.
	TTL, RequestTimeout, WorkTimeout time.Duration

	// Address and Record are the member's own; the record's InstanceID tells this process from others.
	Address string
	Record  state.Record
	// Observer does not stand for election; Fallback takes part in the choice by name.
	Observer, Fallback bool

	// Detection, Dialer and WatcherLost are crash detection's.
	Detection   crash.Settings
	Dialer      crash.Dialer
	WatcherLost <-chan struct{}
	// Identify asks who answers at the own address: the instance id.
	Identify func(ctx context.Context, address string) (instance string, err error)

	// Planning is for while the shards are this member's to plan.
	Planning shardplan.Settings
	// Shards is this member's own part in them, nil without. The fields that are the core's are filled in.
	Shards *consensusmanager.ShardsConfig

	// OnLost, if set, is called with every session that was lost; see etcdsession.KeeperConfig.
	OnLost func(s *etcdsession.Session, lost *session.LostError)
	// Explain, if set, adds the remedy to etcd's refusal of this user, for the log.
	Explain func(err error) error

	// Clock is the session's; nil: this machine's.
	Clock func() deadline.Instant
	// Random draws the numbers in [0, 1) by which retries get out of step; nil: math/rand's.
	Random func() float64
	Logger hclog.Logger
}

// Core is a member's. Its parts are safe for concurrent use; its own methods are for who starts and stops it.
type Core struct {
	Mirror   *watchcache.Mirror
	Keeper   *etcdsession.Keeper
	Member   *membership.Membership
	Manager  *consensusmanager.ConsensusManager
	Detector *crash.Detector

	cfg Config

	leave context.CancelFunc // revokes
	left  chan struct{}
	err   error // why the keeper gave up; read after left

	close context.CancelFunc
	rest  sync.WaitGroup
}

// New assembles a core; nothing runs yet.
func New(cfg Config) (*Core, error) {
	c := &Core{cfg: cfg, left: make(chan struct{})}
	log := cfg.Logger
	c.Mirror = watchcache.New(watchcache.Config{Client: cfg.Client, Keys: cfg.Keys, Member: cfg.Address,
		LagTimeout:  cfg.TTL / 3,
		ReadTimeout: cfg.RequestTimeout, Random: cfg.Random, Logger: log.Named("mirror")})
	c.Member = membership.New(membership.Config{Client: cfg.Client, Keys: cfg.Keys, Mirror: c.Mirror,
		Address: cfg.Address, Record: cfg.Record, RemovePredecessor: !cfg.Detection.Off,
		GracePeriod: cfg.Detection.GracePeriod, RequestTimeout: cfg.RequestTimeout, MeasureEvery: cfg.TTL / 3,
		Identify: cfg.Identify, Random: cfg.Random, Logger: log.Named("member")})
	keeper, err := etcdsession.NewKeeper(etcdsession.KeeperConfig{
		Config: etcdsession.Config{Client: cfg.Client, TTL: cfg.TTL, Logger: log.Named("session"),
			ReadKey: cfg.Keys.Request(), KnownRevision: c.Mirror.Known, OnRead: c.Mirror.Saw, KnownTerm: c.Mirror.Term,
			Proxied: c.Mirror.Proxied, Clock: cfg.Clock},
		Register: c.Member.Register, OnLost: c.lost, Explain: cfg.Explain, Random: cfg.Random,
	})
	if err != nil {
		return nil, err
	}
	c.Keeper = keeper
	c.Detector = crash.New(crash.Config{Client: cfg.Client, Mirror: c.Mirror, Keeper: keeper,
		Address: cfg.Address, InstanceID: cfg.Record.InstanceID, WatcherLost: cfg.WatcherLost, Dialer: cfg.Dialer,
		Settings: cfg.Detection, Random: cfg.Random, Logger: log.Named("crashdetector")})
	c.Manager, err = consensusmanager.New(c.consensus())
	return c, err
}

func (c *Core) consensus() consensusmanager.Config {
	cfg, log := c.cfg, c.cfg.Logger.Named("shards")
	config := consensusmanager.Config{
		Election: leaderelection.Config{Client: cfg.Client, Prefix: cfg.Keys.Prefix(), Address: cfg.Address,
			Observer: cfg.Observer, Fallback: cfg.Fallback, RequestTimeout: cfg.RequestTimeout,
			WorkTimeout: cfg.WorkTimeout, Mirror: c.Mirror, Keeper: c.Keeper, Logger: cfg.Logger.Named("election")},
		Planner: consensusmanager.PlannerConfig{Client: cfg.Client, Keys: cfg.Keys, Mirror: c.Mirror, Settings: cfg.Planning,
			Timeout: cfg.RequestTimeout, Random: cfg.Random, Logger: log},
	}
	if cfg.Shards != nil {
		shards := *cfg.Shards
		shards.Client, shards.Keys, shards.Mirror, shards.Keeper = cfg.Client, cfg.Keys, c.Mirror, c.Keeper
		shards.Address, shards.Timeout, shards.Random, shards.Logger = cfg.Address, cfg.RequestTimeout, cfg.Random, log
		config.Shards = &shards
	}
	return config
}

// lost is called for every session that was lost.
func (c *Core) lost(s *etcdsession.Session, lost *session.LostError) {
	c.Member.SessionLost(s, lost)
	if c.cfg.OnLost != nil {
		c.cfg.OnLost(s, lost)
	}
	if lost.Reason == session.ReasonOtherHistory { // a watch of what was before stays silent
		c.Mirror.Rebuild("etcd's history is another one")
	}
}
