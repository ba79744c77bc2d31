package automation

import (
	"sync"
	"time"

	"github.com/goverse/goverse/cluster/internal/eventrate"
	"github.com/goverse/goverse/internal/logs/logtext"
)

// Status describes an automation at one instant. Counters count in this process since New.
type Status struct {
	Name   string `json:"name"`
	Active bool   `json:"active"` // this process executes items; with a LeaderLock, it leads
	// LeaderOnly reports whether there is a LeaderLock.
	LeaderOnly bool      `json:"leader_only"`
	Token      int64     `json:"token"` // of the last lead; 0 without a LeaderLock
	Since      time.Time `json:"since"` // when it became active last
	Workers    int       `json:"workers"`
	Running    int       `json:"running"` // items that are being executed here
	// Counts are those of the source when it was last asked, for all processes; -1 if unknown.
	Counts
	Done        int64     `json:"done"`
	PerSecond   float64   `json:"per_second"` // Done over the last seconds
	DoneAt      time.Time `json:"done_at"`
	Retries     int64     `json:"retries"`    // failed attempts that are followed by another one
	GivenUp     int64     `json:"given_up"`   // items parked here
	Failures    int64     `json:"failures"`   // of the source and the lock
	LastItem    string    `json:"last_item"`  // the item of LastError; "" if it concerns none
	LastError   string    `json:"last_error"` // "" if there was no error
	LastErrorAt time.Time `json:"last_error_at"`
}

// maxErrorShown limits the text of an error in a Status, in bytes.
const maxErrorShown = 4 << 10

var unknownCounts = Counts{Due: -1, Waiting: -1, Parked: -1}

// statusReport holds the status and the values from which it is computed.
type statusReport struct {
	mu   sync.Mutex
	s    Status
	rate eventrate.Rate
}

func (r *statusReport) initStatus(name string, workers int, leaderOnly bool) {
	r.s.Name, r.s.Workers, r.s.LeaderOnly, r.s.Counts = name, workers, leaderOnly, unknownCounts
}

// Status returns the current status. It does not block.
func (a *Automation[I]) Status() Status {
	r := &a.report
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.s
	s.PerSecond = r.rate.PerSecond(time.Now())
	return s
}

func (r *statusReport) changeStatus(f func(s *Status)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(&r.s)
}

func (r *statusReport) recordTermStart(token int64) {
	r.changeStatus(func(s *Status) { s.Active, s.Token, s.Since = true, token, time.Now() })
}

// recordTermEnd records that this process executes no more items. The counts are then known only to the others.
func (r *statusReport) recordTermEnd() {
	r.changeStatus(func(s *Status) { s.Active, s.Counts = false, unknownCounts })
}

func (r *statusReport) recordBegin() { r.changeStatus(func(s *Status) { s.Running++ }) }

func (r *statusReport) recordEnd() { r.changeStatus(func(s *Status) { s.Running-- }) }

func (r *statusReport) setCounts(c Counts) { r.changeStatus(func(s *Status) { s.Counts = c }) }

func (r *statusReport) recordResult(key string, result Result, now time.Time) {
	r.changeStatus(func(s *Status) {
		switch result.Outcome {
		case Done:
			s.Done++
			s.DoneAt = now
			r.rate.Add(now, 1)
		case Failed:
			s.Retries++
		case Parked:
			s.GivenUp++
		}
		if result.Outcome == Failed || result.Outcome == Parked {
			s.LastItem, s.LastError, s.LastErrorAt = key, logtext.Bound(result.Err.Error(), maxErrorShown), now
		}
	})
}

func (r *statusReport) recordFailure(err error) {
	r.changeStatus(func(s *Status) {
		s.Failures++
		s.LastItem, s.LastError, s.LastErrorAt = "", logtext.Bound(err.Error(), maxErrorShown), time.Now()
	})
}
