package claims

import (
	"sync"
	"time"

	"github.com/goverse/goverse/internal/logs/logtext"
)

// The connections that a session replaces when they break.
const (
	useCommands = "commands"
	useWatcher  = "watcher"
)

// outageEndAfter is the time without failures after which an outage is over.
const outageEndAfter = time.Second

// outage records that connections of a session, apart from the main one, fail. The zero value means that none does. All
// methods are safe for concurrent use.
type outage struct {
	mu       sync.Mutex
	logged   bool
	failing  map[string]bool // by use
	failedAt time.Time
}

// fail records a failure, and reports whether it is the first of an outage.
func (o *outage) fail(use string, now time.Time) (first bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.failing == nil {
		o.failing = map[string]bool{}
	}
	o.failing[use], o.failedAt = true, now
	first = !o.logged
	o.logged = true
	return first
}

// succeed records that a connection works, and reports whether an outage is over.
func (o *outage) succeed(use string, now time.Time) (over bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.failing, use)
	if !o.logged || len(o.failing) > 0 || now.Sub(o.failedAt) < outageEndAfter {
		return false
	}
	o.logged = false
	return true
}

// recordFailure records that a request on a connection failed, and logs the first one of an outage.
func (s *Session) recordFailure(use string, err error) {
	if s.ctx.Err() == nil && s.outage.fail(use, time.Now()) {
		s.k.cfg.Logger.Warn("a request to PostgreSQL failed, retrying", "session", s.id, "connection", use,
			"error", logtext.OneLine(err))
	}
}

// recordSuccess records that a request on a connection succeeded. The watcher's, which come again and again, log the
// end of an outage.
func (s *Session) recordSuccess(use string) {
	if s.outage.succeed(use, time.Now()) {
		s.k.cfg.Logger.Info("PostgreSQL answers the session's requests again", "session", s.id)
	}
}
