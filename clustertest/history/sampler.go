package history

import "time"

const (
	// sampleEvery is the time between two samples of a node.
	sampleEvery = time.Millisecond
	// askEvery is the time between two looks at its state, while nothing changes.
	askEvery = 100 * time.Millisecond
	// tellEvery bounds how much of a run that goes on a crash can lose.
	tellEvery = 20 * time.Millisecond
	// maxPause ends a run in which nobody looked for so long: whatever was wrong
	// with the node then, its silence is not its own.
	maxPause = 100 * time.Millisecond
)

// sampler samples one node. Only its goroutine touches it.
type sampler struct {
	node  Node
	who   Who
	write func(...line)
	stop  <-chan struct{}

	changed <-chan struct{}
	cancel  func()
	asked   Instant // when state was last asked for
	state   State
	current *Run // goes on
	told    Run  // what of it is written
}

func (s *sampler) run() {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		s.sample()
		select {
		case <-tick.C:
		case <-s.changed:
		case <-s.stop:
			s.write(line{Run: s.current})
			if s.cancel != nil {
				s.cancel()
			}
			return
		}
	}
}

// sample asks the node once.
func (s *sampler) sample() {
	var w Window
	w.Before = Now()
	leads, token := s.node.Leads()
	w.After = Now()
	if !leads {
		token = 0
	}
	same := s.current != nil && s.current.Leads == leads && s.current.Token == token
	if !same || w.After.Sub(s.asked) >= askEvery {
		s.ask()
	}
	same = same && s.current.State == s.state && w.Before.Sub(s.current.Last.Before) <= maxPause
	if !same {
		next := &Run{Who: s.who, Leads: leads, Token: token, State: s.state, First: w, Last: w, Count: 1}
		if s.current != nil && *s.current != s.told {
			s.write(line{Run: s.current}, line{Run: next})
		} else {
			s.write(line{Run: next})
		}
		s.current, s.told = next, *next
		return
	}
	s.current.Last = w
	s.current.Count++
	if w.After.Sub(s.told.Last.After) >= tellEvery {
		s.write(line{Run: s.current})
		s.told = *s.current
	}
}

// ask asks for what need not be known every millisecond.
func (s *sampler) ask() {
	s.asked = Now()
	if s.node.State != nil {
		s.state = s.node.State()
	}
	if s.node.Subscribe != nil && s.changed == nil {
		s.changed, s.cancel = s.node.Subscribe()
	}
}
