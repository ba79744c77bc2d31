package processor

import (
	"sync"
	"time"
)

// Status is what a processor does at one instant. Counters are since New, of this process.
type Status struct {
	Name    string
	Leading bool      // this process processes
	Paused  bool      // it handles no further event until Resume
	Token   int64     // of the last term
	Since   time.Time // when it began
	// Position is the last event that is known to be done with; "" before the first term.
	Position Position
	// Lag is how many events come after, when the source was last asked; -1: it is not known.
	Lag int64
	// Handled counts events, PerSecond is how many they were in the last seconds, and HandledAt
	// when the last batch was stored.
	Handled   int64
	PerSecond float64
	HandledAt time.Time
	Batches   int64
	Retries   int64 // failed attempts
	Parked    int64
	Failures  int64 // of the source, the checkpoint and the lock
	// Attempts is how often the event that is next has failed; 0: nothing is wrong with it.
	Attempts    int
	LastError   string // "" if there was none
	LastErrorAt time.Time
}

// report is the status as it is kept.
type report struct {
	mu    sync.Mutex
	s     Status
	rate  rate
	asked Position // where the lag was asked for
}

func (r *report) begin(name string) { r.s.Name, r.s.Lag = name, -1 }

// Status is what the processor does now. It does not block.
func (p *Processor[E]) Status() Status {
	r := &p.report
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.s
	s.Paused, _ = p.gate.isShut()
	s.PerSecond = r.rate.perSecond(time.Now())
	return s
}

func (r *report) do(f func(s *Status)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(&r.s)
}

func (r *report) leads(at Mark) {
	r.do(func(s *Status) {
		s.Leading, s.Token, s.Position, s.Since, s.Attempts = true, at.Token, at.Position, time.Now(), 0
	})
}

// ended: what is left to do is another's to know.
func (r *report) ended() {
	r.do(func(s *Status) { s.Leading, s.Lag, s.Attempts = false, -1, 0 })
}

func (r *report) at(at Mark) { r.do(func(s *Status) { s.Position = at.Position }) }

func (r *report) position() (at Position) {
	r.do(func(s *Status) { at = s.Position })
	return at
}

// outdated reports whether there was a lag, or none was known, at another position than now.
func (r *report) outdated() (yes bool) {
	r.do(func(s *Status) { yes = s.Lag != 0 && s.Position != r.asked })
	return yes
}

func (r *report) lag(at Position, n int64) { r.do(func(s *Status) { s.Lag, r.asked = n, at }) }

func (r *report) passed(at Mark, n int, park bool, now time.Time) {
	r.do(func(s *Status) {
		s.Position, s.Attempts, s.HandledAt = at.Position, 0, now
		s.Batches++
		if park {
			s.Parked += int64(n)
			return
		}
		s.Handled += int64(n)
		r.rate.add(now, n)
	})
}

func (r *report) retries(err error, attempts int) {
	r.do(func(s *Status) {
		s.Retries++
		s.Attempts, s.LastError, s.LastErrorAt = attempts, err.Error(), time.Now()
	})
}

func (r *report) failed(err error) {
	r.do(func(s *Status) {
		s.Failures++
		s.LastError, s.LastErrorAt = err.Error(), time.Now()
	})
}
