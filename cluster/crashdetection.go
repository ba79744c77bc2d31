package cluster

import (
	"fmt"
	"time"

	"github.com/goverse/goverse/internal/crash"
	"github.com/goverse/goverse/internal/crash/suspicion"
)

// CrashDetection says how the death of another node's process is noticed before its lease has run out:
// each node keeps a connection to some others; where it breaks and the kernel refuses a new one, the node
// is accused in etcd, and removed if it does not refute that within the grace period. The zero value is
// the default.
type CrashDetection struct {
	// Off: this node accuses nobody. It still refutes, and it still notifies the nodes that watch it
	// when it stops. Give all nodes the same: with detection off everywhere a lease that runs out is the
	// only way in which a member is lost.
	Off bool
	// Watchers is how many others each member watches, and so how many watch it. Default 2.
	Watchers int
	// GracePeriod is how long an accused member has to refute, at least: five times as long as the
	// accuser's requests to etcd take, or as the accused's own do by its record, if that is longer.
	// Records say it from 20 ms on, so a smaller one than the default is for members that are all nearer. A
	// member that lost a watcher goes on for its grace period and two of these without an answer from etcd.
	// At most a third of LeaderElectionTTL. Default 100 ms.
	GracePeriod time.Duration
	// Confirmations is how many refused connections in a row, 5 ms apart, are evidence. Default 3.
	Confirmations int
	// Rest is how long a member that refuted is left to its lease; each time in a row doubles it, up to
	// 60 times as long. Default 1 s.
	Rest time.Duration
}

// settings are those of the detector.
func (d CrashDetection) settings() crash.Settings {
	return crash.Settings(d).WithDefaults()
}

func (d CrashDetection) validate(ttl time.Duration) error {
	s := d.settings()
	if err := s.Validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrBadConfig, err)
	}
	if 3*s.GracePeriod > ttl {
		return fmt.Errorf("%w: CrashDetection.GracePeriod is %v: give at most a third of LeaderElectionTTL (%v), or a "+
			"lease runs out sooner",
			ErrBadConfig, s.GracePeriod, ttl)
	}
	return nil
}

// watcherKey is the node's roster: which processes are members that may watch this node, and prove it by which key.
func (c *Cluster) watcherKey(instanceID string) (key []byte, member bool) {
	view := c.view.Load()
	if view == nil {
		return nil, false
	}
	s := view.Snapshot()
	if s == nil {
		return nil, false
	}
	return suspicion.WatcherKey(s, c.node.AdvertiseAddress(), instanceID, c.cfg.CrashDetection.settings().Watchers)
}

// CrashStats are what crash detection saw and did on a node.
type CrashStats struct {
	// Watching is how many watches on other members stand now.
	Watching int64
	// Accusations that this node wrote; Removals that followed; Refuted by the accused.
	Accusations, Removals, Refuted int64
	// Refutations by this node of accusations against itself, and WatchersLost.
	Refutations, WatchersLost int64
	// Silent is how many of those that this node watches do not answer it now.
	Silent int64
	// LastGracePeriod is what the node had that this one removed last, to refute the accusation; 0: it has removed none.
	LastGracePeriod time.Duration
}
