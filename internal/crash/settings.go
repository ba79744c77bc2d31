package crash

import (
	"fmt"
	"time"
)

// The defaults of Settings.
const (
	DefaultWatchers      = 2
	DefaultGracePeriod   = 100 * time.Millisecond
	DefaultConfirmations = 3
	DefaultRest          = time.Second
)

// LeastGracePeriod is more than a living member needs to refute on a machine that is not
// overloaded.
const LeastGracePeriod = 10 * time.Millisecond

// Settings say how crashes are detected. The zero value is the default.
type Settings struct {
	// Off: this node accuses nobody. It still refutes, and it still notifies those who
	// watch it when it stops. Give all nodes the same: with detection off everywhere
	// a lease that runs out is the only way in which a member is lost.
	Off bool
	// Watchers is how many others each member watches, and so how many watch it.
	// Default 2.
	Watchers int
	// GracePeriod is how long an accused member has to refute, at least: five times as long as
	// the accuser's requests to etcd take, or as the accused's own do by its
	// record, if that is longer. Records say it from 20 ms on, so a smaller GracePeriod than the
	// default is for members that are all nearer. One whose watcher was lost goes on for
	// its grace period and two of these without an answer from etcd. Default 100 ms.
	GracePeriod time.Duration
	// Confirmations is how many refused connections in a row, 5 ms apart, are
	// evidence. Default 3.
	Confirmations int
	// Rest is how long a member that refuted is left to its lease; each time in a row
	// doubles it, up to 60 times as long. Default 1 s.
	Rest time.Duration
}

// Validate reports what is wrong with the settings, in one line.
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
	case s.Rest < 0:
		return fmt.Errorf("CrashDetection.Rest is negative (%v): leave it 0 for the default", s.Rest)
	}
	return nil
}

// WithDefaults is s with its zero fields filled in.
func (s Settings) WithDefaults() Settings {
	if s.Watchers == 0 {
		s.Watchers = DefaultWatchers
	}
	if s.GracePeriod == 0 {
		s.GracePeriod = DefaultGracePeriod
	}
	if s.Confirmations == 0 {
		s.Confirmations = DefaultConfirmations
	}
	if s.Rest == 0 {
		s.Rest = DefaultRest
	}
	return s
}
