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

	"github.com/goverse/goverse/cluster/consensusmanager"
	"github.com/goverse/goverse/cluster/session"
	"github.com/goverse/goverse/internal/crash"
	"github.com/goverse/goverse/internal/etcd"
	"github.com/goverse/goverse/internal/etcd/etcdsession"
	"github.com/goverse/goverse/internal/member/registration"
	"github.com/goverse/goverse/internal/state"
)

// Config configures a [Member]. All fields are required unless their comment says otherwise.
type Config struct {
	etcd.Process
	// Settings configures the member's part in the election and in the shards.
	consensusmanager.Settings
	// TTL is that of the session's lease.
	TTL time.Duration
	// Record describes this member. Its InstanceID distinguishes this process from others.
	Record state.Record

	// Detection, Dialer and WatcherLost configure crash detection.
	Detection   crash.Settings
	Dialer      crash.Dialer
	WatcherLost <-chan struct{}
	// Identify returns the instance id of the process that answers at an address.
	Identify func(ctx context.Context, address string) (instance string, err error)

	// OnLost, if set, is called for each lost session; see etcdsession.Hooks.
	OnLost func(s *etcdsession.Session, lost *session.LostError)
	// Explain, if set, adds the remedy to an error by which etcd refuses this user. It is used for the log.
	Explain func(err error) error
}

// Member makes this process a member of the cluster. Its parts are safe for concurrent use. Its own methods are for
// the one goroutine that starts and stops it.
type Member struct {
	*registration.Registration
	Consensus *consensusmanager.Runner
	Detector  *crash.Detector

	cfg    Config
	onDuty bool // StartDuties was called
}

// New assembles a member. Nothing runs before Start.
func New(cfg Config) (*Member, error) {
	m := &Member{cfg: cfg}
	registered, err := registration.New(registration.Config{Process: cfg.Process, TTL: cfg.TTL, Record: cfg.Record,
		RemovePredecessor: !cfg.Detection.Off, GracePeriod: cfg.Detection.GracePeriod, Identify: cfg.Identify,
		SilenceTimeout: cfg.Detection.OwnSilenceTimeout(),
		OnLost:         cfg.OnLost, Explain: cfg.Explain, Accusations: etcdsession.Accusations{
			Ranges: []string{cfg.Keys.AccusationsOf(cfg.Address)}, Silence: cfg.Keys.SilenceAccusationsOf(cfg.Address),
			OnRefuted: func(keys []string) { m.Detector.RecordRefuted(keys) }}})
	if err != nil {
		return nil, err
	}
	m.Registration = registered
	m.Detector = crash.New(crash.Config{Process: cfg.Named("crashdetector"), Mirror: m.Mirror, Keeper: m.Keeper,
		InstanceID: cfg.Record.InstanceID, WatcherLost: cfg.WatcherLost, Dialer: cfg.Dialer, Settings: cfg.Detection})
	m.Consensus, err = consensusmanager.NewRunner(consensusmanager.Config{Process: cfg.Process, Mirror: m.Mirror,
		Keeper: m.Keeper, Settings: cfg.Settings})
	return m, err
}
