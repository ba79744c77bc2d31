package suspicion

import (
	"cmp"
	"fmt"
	"time"
)

// The defaults of Settings.
const (
	DefaultWatchers      = 2
	DefaultGracePeriod   = 100 * time.Millisecond
	DefaultConfirmations = 3
	DefaultRest          = time.Second
	// DefaultSilenceTimeout is that of members with a TTL of LeastSilenceTTL or more. With a shorter one their leases run
	// out almost as soon, and there is none by default.
	DefaultSilenceTimeout = 3500 * time.Millisecond
	LeastSilenceTTL       = 2 * DefaultSilenceTimeout
)

// LeastGracePeriod is more than a living member needs to refute on a machine that is not overloaded.
const LeastGracePeriod = 10 * time.Millisecond

// Settings configures how crashes are detected. The zero value stands for the defaults.
type Settings struct {
	// Off means that this node accuses no other. It still refutes, and when it stops it still notifies its
	// watchers. Set it on all nodes or on none: with detection off everywhere, a member is lost only when its
	// lease expires.
	Off bool
	// Watchers is the number of members that each member watches, and so also the number that watch it. Default
	// 2.
	Watchers int
	// GracePeriod is the least time that an accused member has to refute. The time is longer if five of the
	// accuser's requests to etcd take longer, or five of the accused's own according to its record. A record
	// names distances from 20 ms on, so a GracePeriod below the default suits only clusters where all members
	// are nearer. A member that has lost a watcher continues without an answer from etcd for its grace period
	// and two of these. Default 100 ms.
	GracePeriod time.Duration
	// Confirmations is the number of refused connections in a row, 5 ms apart, that are evidence. Default 3.
	Confirmations int
	// Rest is the time for which a member that refuted is left to its lease. Each further refutation in a row
	// doubles it, up to 60 times Rest. Default 1 s.
	Rest time.Duration
	// SilenceTimeout is the time in which a member is replaced that stands still or is cut off, if that is sooner than
	// its TTL: see package silence. Each member names its own to its watchers. 0 or less for none; see
	// SilenceTimeoutOrDefault.
	SilenceTimeout time.Duration
}

// LeastSilenceTimeout is the shortest silence time-out. Below it a busy machine would often pass for a silent one.
const LeastSilenceTimeout = time.Second

// Validate returns an error, in one line, that describes the first invalid setting, or nil.
func (s Settings) Validate() error {
	switch {
	case s.Watchers < 0:
		return fmt.Errorf("CrashDetection.Watchers is %d: give the number of members that each one watches, 0 for the "+
			"default; Off turns detection off", s.Watchers)
	case s.Confirmations < 0:
		return fmt.Errorf("CrashDetection.Confirmations is %d: give a number from 1, or 0 for the default", s.Confirmations)
	case s.GracePeriod != 0 && s.GracePeriod < LeastGracePeriod:
		return fmt.Errorf("CrashDetection.GracePeriod is %v: give at least %v, or 0 for the default",
			s.GracePeriod, LeastGracePeriod)
	case s.SilenceTimeout > 0 && s.SilenceTimeout < LeastSilenceTimeout:
		return fmt.Errorf("CrashDetection.SilenceTimeout is %v: give at least %v, 0 for the default, or -1 to leave silent "+
			"members to their leases", s.SilenceTimeout, LeastSilenceTimeout)
	case s.Rest < 0:
		return fmt.Errorf("CrashDetection.Rest is negative (%v): leave it 0 for the default", s.Rest)
	}
	return nil
}

// SilenceTimeoutOrDefault returns the silence time-out of a member with that TTL that was configured with timeout: the
// default if that is 0.
func SilenceTimeoutOrDefault(timeout, ttl time.Duration) time.Duration {
	if timeout == 0 && ttl >= LeastSilenceTTL {
		return DefaultSilenceTimeout
	}
	return timeout
}

// OwnSilenceTimeout returns the silence time-out of a member with these settings, 0 if it has none.
func (s Settings) OwnSilenceTimeout() time.Duration {
	if s.Off {
		return 0
	}
	return max(0, s.SilenceTimeout)
}

// WithDefaults returns s with defaults in place of zero fields, without one for the silence time-out.
func (s Settings) WithDefaults() Settings {
	s.Watchers = cmp.Or(s.Watchers, DefaultWatchers)
	s.GracePeriod = cmp.Or(s.GracePeriod, DefaultGracePeriod)
	s.Confirmations = cmp.Or(s.Confirmations, DefaultConfirmations)
	s.Rest = cmp.Or(s.Rest, DefaultRest)
	return s
}
