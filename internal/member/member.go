// Package member assembles the parts that make a process a member of the cluster: its mirror, its session and
// registration, crash detection, and its part in the election and in the shards. Package cluster runs it beside
// a serving node; the simulation runs it alone.
//
//	New ──► Start ──► Join ──► StartDuties ──► Stop
//
// [Member.Stop] describes the order of a stop.
//
// Not promised: a server. The caller must listen at the member's address, and say goodbye to the watchers of
// this member.
package member

import (
	"context"
	"time"

	"github.com/hashicorp/go-hclog"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/goverse/goverse/cluster/consensusmanager"
	"github.com/goverse/goverse/cluster/leaderelection"
	"github.com/goverse/goverse/cluster/session"
	"github.com/goverse/goverse/internal/crash"
	"github.com/goverse/goverse/internal/etcd/deadline"
	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/member/registration"
	"github.com/goverse/goverse/internal/sharding/shardplan"
	"github.com/goverse/goverse/internal/state"
)

// Config configures a [Member]. All fields are required unless their comment says otherwise.
type Config struct {
	Client *clientv3.Client
	// Keys names the cluster's keys.
	Keys state.Keys
	// TTL is that of the session's lease. RequestTimeout limits each request to etcd. WorkTimeout limits the
	// wait for work that must end.
	TTL, RequestTimeout, WorkTimeout time.Duration

	// Address and Record describe this member. The record's InstanceID distinguishes this process from others.
	Address string
	Record  state.Record
	// Observer makes the member never stand for election. Fallback lets it act as leader when the election
	// fails.
	Observer, Fallback bool

	// Detection, Dialer and WatcherLost configure crash detection.
	Detection   crash.Settings
	Dialer      crash.Dialer
	WatcherLost <-chan struct{}
	// Identify returns the instance id of the process that answers at an address.
	Identify func(ctx context.Context, address string) (instance string, err error)

	// Planning configures the planning of shards while that is this member's duty.
	Planning shardplan.Settings
	// Shards configures this member's own part in the shards; nil means none. New fills in the fields that it
	// shares with the member.
	Shards *consensusmanager.ShardsConfig

	// OnLost, if set, is called for each lost session; see etcdsession.KeeperConfig.
	OnLost func(s *etcdsession.Session, lost *session.LostError)
	// Explain, if set, adds the remedy to an error by which etcd refuses this user. It is used for the log.
	Explain func(err error) error

	// Clock is the session's clock; nil means this machine's.
	Clock func() deadline.Instant
	// Random returns numbers in [0, 1) that spread retries in time; nil means math/rand's.
	Random func() float64
	Logger hclog.Logger
}

// Member makes this process a member of the cluster. Its parts are safe for concurrent use. Its own methods are for
// the one goroutine that starts and stops it.
type Member struct {
	*registration.Registration
	Consensus *consensusmanager.ConsensusManager
	Detector  *crash.Detector

	cfg Config
}

// New assembles a member. Nothing runs before Start.
func New(cfg Config) (*Member, error) {
	registered, err := registration.New(registration.Config{Client: cfg.Client, Keys: cfg.Keys, TTL: cfg.TTL,
		RequestTimeout: cfg.RequestTimeout, Address: cfg.Address, Record: cfg.Record,
		RemovePredecessor: !cfg.Detection.Off, GracePeriod: cfg.Detection.GracePeriod, Identify: cfg.Identify,
		OnLost: cfg.OnLost, Explain: cfg.Explain, Clock: cfg.Clock, Random: cfg.Random, Logger: cfg.Logger})
	if err != nil {
		return nil, err
	}
	m := &Member{Registration: registered, cfg: cfg}
	m.Detector = crash.New(crash.Config{Client: cfg.Client, Mirror: m.Mirror, Keeper: m.Keeper,
		Address: cfg.Address, InstanceID: cfg.Record.InstanceID, WatcherLost: cfg.WatcherLost, Dialer: cfg.Dialer,
		Settings: cfg.Detection, Random: cfg.Random, Logger: cfg.Logger.Named("crashdetector")})
	m.Consensus, err = consensusmanager.New(m.consensusConfig())
	return m, err
}

func (m *Member) consensusConfig() consensusmanager.Config {
	cfg, log := m.cfg, m.cfg.Logger.Named("shards")
	config := consensusmanager.Config{
		Election: leaderelection.MemberConfig{Client: cfg.Client, Prefix: cfg.Keys.Prefix(), Address: cfg.Address,
			Observer: cfg.Observer, Fallback: cfg.Fallback, RequestTimeout: cfg.RequestTimeout,
			WorkTimeout: cfg.WorkTimeout, Mirror: m.Mirror, Keeper: m.Keeper, Logger: cfg.Logger.Named("election")},
		Planner: consensusmanager.PlannerConfig{Client: cfg.Client, Keys: cfg.Keys, Mirror: m.Mirror, Settings: cfg.Planning,
			Timeout: cfg.RequestTimeout, Random: cfg.Random, Logger: log},
	}
	if cfg.Shards != nil {
		shards := *cfg.Shards
		shards.Client, shards.Keys, shards.Mirror, shards.Keeper = cfg.Client, cfg.Keys, m.Mirror, m.Keeper
		shards.Address, shards.Timeout, shards.Random, shards.Logger = cfg.Address, cfg.RequestTimeout, cfg.Random, log
		config.Shards = &shards
	}
	return config
}
