package processor

import (
	"sync"
	"time"

	"github.com/goverse/goverse/cluster/internal/eventrate"
)

// Status describes a processor at one instant. Counters count in this process since New.
type Status struct {
	Name    string    `json:"name"`
	Leading bool      `json:"leading"` // this process handles the events
	Paused  bool      `json:"paused"`  // this process leads and handles no event, because that was requested
	Token   int64     `json:"token"`   // of the last term
	Since   time.Time `json:"since"`   // when that term began
	// Position is that of the last event known to be done; "" before the first term.
	Position Position `json:"position"`
	// Lag is the number of events after Position when the source was last asked; -1 if unknown.
	Lag int64 `json:"lag"`
	// Handled counts events, PerSecond is their rate over the last seconds, and HandledAt is the time at which
	// the last batch was stored.
	Handled   int64     `json:"handled"`
	PerSecond float64   `json:"per_second"`
	HandledAt time.Time `json:"handled_at"`
	Batches   int64     `json:"batches"`
	Retries   int64     `json:"retries"` // failed attempts
	Parked    int64     `json:"parked"`
	Failures  int64     `json:"failures"` // of the source, the checkpoint and the lock
	// Attempts counts the failures of the next event; 0 if it has not failed.
	Attempts    int       `json:"attempts"`
	LastError   string    `json:"last_error"` // "" if there was no error
	LastErrorAt time.Time `json:"last_error_at"`
}

// statusReport holds the status and the values from which it is computed.
type statusReport struct {
	mu          sync.Mutex
	s           Status
	rate        eventrate.Rate
	lagPosition Position // the position for which the lag was measured
	request     int64    // the last request to pause or resume that is followed
}

func (r *statusReport) initStatus(name string) { r.s.Name, r.s.Lag = name, -1 }

// Status returns the current status. It does not block.
func (p *Processor[E]) Status() Status {
	s, _ := p.report.current(time.Now())
	return s
}

// current returns the status, and the number of the request that is followed.
func (r *statusReport) current(now time.Time) (Status, int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.s
	s.PerSecond = r.rate.PerSecond(now)
	return s, r.request
}

// setPaused records that the request to pause or resume is followed, after all that was handled is stored.
func (r *statusReport) setPaused(at Mark) {
	r.changeStatus(func(s *Status) { s.Paused, r.request = at.Paused, at.Request })
}

func (r *statusReport) changeStatus(f func(s *Status)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(&r.s)
}

func (r *statusReport) recordTermStart(at Mark) {
	r.changeStatus(func(s *Status) {
		s.Leading, s.Token, s.Position, s.Since, s.Attempts = true, at.Token, at.Position, time.Now(), 0
	})
}

// recordTermEnd records the end of a term. The lag is then known only to the next leader.
func (r *statusReport) recordTermEnd() {
	r.changeStatus(func(s *Status) { s.Leading, s.Paused, s.Lag, s.Attempts = false, false, -1, 0 })
}

func (r *statusReport) setPosition(at Mark) {
	r.changeStatus(func(s *Status) { s.Position = at.Position })
}

func (r *statusReport) position() (at Position) {
	r.changeStatus(func(s *Status) { at = s.Position })
	return at
}

// lagOutdated reports whether the lag is unknown or not 0, and was measured for another position than the current
// one.
func (r *statusReport) lagOutdated() (yes bool) {
	r.changeStatus(func(s *Status) { yes = s.Lag != 0 && s.Position != r.lagPosition })
	return yes
}

func (r *statusReport) setLag(at Position, n int64) {
	r.changeStatus(func(s *Status) { s.Lag, r.lagPosition = n, at })
}

func (r *statusReport) recordBatch(at Mark, n int, park bool, now time.Time) {
	r.changeStatus(func(s *Status) {
		s.Position, s.Attempts, s.HandledAt = at.Position, 0, now
		s.Batches++
		if park {
			s.Parked += int64(n)
			return
		}
		s.Handled += int64(n)
		r.rate.Add(now, n)
	})
}

func (r *statusReport) recordRetry(err error, attempts int) {
	r.changeStatus(func(s *Status) {
		s.Retries++
		s.Attempts, s.LastError, s.LastErrorAt = attempts, err.Error(), time.Now()
	})
}

// recordFailedRetry records that a parked event has failed again.
func (r *statusReport) recordFailedRetry(err error) {
	r.changeStatus(func(s *Status) {
		s.Retries++
		s.LastError, s.LastErrorAt = err.Error(), time.Now()
	})
}

func (r *statusReport) recordFailure(err error) {
	r.changeStatus(func(s *Status) {
		s.Failures++
		s.LastError, s.LastErrorAt = err.Error(), time.Now()
	})
}
