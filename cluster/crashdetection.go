package cluster

import (
	"fmt"
	"time"

	"github.com/goverse/goverse/internal/crash/suspicion"
	"github.com/goverse/goverse/internal/etcd/etcdsession"
)

// CrashDetection configures how the death of another node's process is detected before its lease has run out.
// Each node keeps a connection to some others. If that connection breaks and the kernel refuses a new one, the
// node is accused in etcd. It is removed unless it refutes the accusation within the grace period. A node that is
// silent is removed within its SilenceTimeout. The zero value is the default.
type CrashDetection struct {
	// Off disables accusations by this node. The node still refutes accusations, and still notifies its watchers
	// when it stops. Use the same value on all nodes. With detection off everywhere, a member is lost only when
	// its lease expires.
	Off bool
	// Watchers is the number of members that watch each member, which watches about as many. One of them is the member
	// before it in the order of addresses; the others are scattered, because neighbours may be lost together. Default 2.
	Watchers int
	// GracePeriod is the minimum time that an accused member has to refute. The actual time is five times the
	// duration of the accuser's requests to etcd, or of the accused member's own as given in its record, if that
	// is longer. Records give durations from 20 ms up, so a value below the default suits only members that are
	// all nearer to etcd than that. A member that lost a watcher goes on without an answer from etcd for its own
	// grace period plus two of these. At most a third of LeaderElectionTTL. Default 100 ms.
	GracePeriod time.Duration
	// Confirmations is the number of consecutive refused connections, 5 ms apart, that count as evidence. Default
	// 3.
	Confirmations int
	// Rest is the time for which a member that refuted an accusation is not accused again, and only its lease can
	// end its membership. It doubles with each refutation in a row, up to 60 times this value. Default 1 s.
	Rest time.Duration
	// SilenceTimeout is the time within which another node replaces this one if its process stands still, or its host
	// is lost or cut off, although its lease runs on. A GracePeriod above three eighths of it makes that longer. The
	// watchers of this node acknowledge its heartbeats. This node claims nothing while it has neither those nor a recent
	// read of etcd: leads, owns, holds. Each node gives its own to its watchers, and nodes of versions before know none
	// of this. At least 1 s, and less than LeaderElectionTTL. Negative leaves this node to its lease. Default 3.5 s, or
	// none if LeaderElectionTTL is less than 7 s.
	SilenceTimeout time.Duration
}

// withDefaults returns d with the defaults of a node with that TTL filled in.
func (d CrashDetection) withDefaults(ttl time.Duration) CrashDetection {
	d.SilenceTimeout = suspicion.SilenceTimeoutOrDefault(d.SilenceTimeout, ttl)
	return CrashDetection(suspicion.Settings(d).WithDefaults())
}

// validate checks d with its defaults filled in.
func (d CrashDetection) validate(ttl time.Duration) error {
	if err := suspicion.Settings(d).Validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrBadConfig, err)
	}
	if 3*d.GracePeriod > ttl {
		return fmt.Errorf("%w: CrashDetection.GracePeriod is %v: give at most a third of LeaderElectionTTL (%v), or a "+
			"lease runs out sooner",
			ErrBadConfig, d.GracePeriod, ttl)
	}
	if d.SilenceTimeout >= ttl {
		return fmt.Errorf("%w: CrashDetection.SilenceTimeout is %v, and the lease runs out as soon: give less than "+
			"LeaderElectionTTL (%v), or -1 for none",
			ErrBadConfig, d.SilenceTimeout, ttl)
	}
	return nil
}

// watcherKey implements the node's roster. It reports whether the instance is a member that may watch this node,
// and returns the key by which it proves that.
func (c *Cluster) watcherKey(instanceID string) (key []byte, member bool) {
	view := c.view.Load()
	if view == nil {
		return nil, false
	}
	s := view.Snapshot()
	if s == nil {
		return nil, false
	}
	return suspicion.WatcherKey(s, c.node.AdvertiseAddress(), instanceID, c.cfg.CrashDetection.Watchers)
}

// CrashStats counts what crash detection observed and did on a node.
type CrashStats struct {
	// Watching is the number of open watches on other members.
	Watching int64 `json:"watching"`
	// Accusations counts those written by this node, Removals those that led to a removal, and Refuted those that
	// the accused member refuted.
	Accusations int64 `json:"accusations"`
	Removals    int64 `json:"removals"`
	Refuted     int64 `json:"refuted"`
	// SilenceAccusations and SilenceRemovals count those of them for silence. See
	// CrashDetection.SilenceTimeout.
	SilenceAccusations int64 `json:"silence_accusations"`
	SilenceRemovals    int64 `json:"silence_removals"`
	// Refutations counts refutations by this node of accusations against itself. WatchersLost counts the watchers
	// it lost.
	Refutations  int64 `json:"refutations"`
	WatchersLost int64 `json:"watchers_lost"`
	// Silent is the number of members watched by this node that currently do not answer it.
	Silent int64 `json:"silent"`
	// LastGracePeriod is the time that the member last removed by this node had to refute; 0 if it has removed
	// none.
	LastGracePeriod time.Duration `json:"last_grace_period_ns"`
}

// Proof is the reason why no other node can have removed a node for its silence by now. See
// CrashDetection.SilenceTimeout.
type Proof string

// The proofs.
const (
	// ProofNone means that no watcher may accuse the node of silence. Its lease decides alone.
	ProofNone Proof = ""
	// ProofAcknowledged means that each armed watcher has acknowledged a heartbeat recently.
	ProofAcknowledged Proof = "acknowledged"
	// ProofRead means that acknowledgements are missing, but that a recent read of etcd has found the node's keys and no
	// accusation. The node sends such reads a few times a second.
	ProofRead Proof = "read"
	// ProofLapsed means that there is no proof. The node claims nothing until a read is answered.
	ProofLapsed Proof = "lapsed"
)

// proofOf returns the number of watchers that s has armed, and its proof.
func proofOf(s *etcdsession.Session) (armed int, proof Proof) {
	p, now := s.ProofsNow()
	switch {
	case p.Armed() == 0:
		return 0, ProofNone
	case p.Lapsed():
		return p.Armed(), ProofLapsed
	case p.AcknowledgedByAll(now):
		return p.Armed(), ProofAcknowledged
	}
	return p.Armed(), ProofRead
}
