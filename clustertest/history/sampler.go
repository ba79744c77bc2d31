package history

import "time"

const (
	// sampleEvery is the time between two samples of a node.
	sampleEvery = time.Millisecond
	// askEvery is the time between two looks at its state, while nothing changes.
	askEvery = 100 * time.Millisecond
	// tellEvery bounds how much of a run that goes on a crash can lose.
	tellEvery = 20 * time.Millisecond
	// maxPause ends a run when nobody looked for so long: the process was paused, or
	// starved, and what its node did not do meanwhile is not the node's fault.
	maxPause = 100 * time.Millisecond
)

// sampler samples one node. Only its goroutine touches it.
type sampler struct {
	node  Node
	who   Who
	every time.Duration
	write func(...line)
	stop  <-chan struct{}

	changed <-chan struct{}
	cancel  func()
	asked   Instant // when state was last asked for
	state   State
	current Run // goes on; Count is 0 before the first sample
	told    Run // what of it is written
}

func (s *sampler) run() {
	tick := time.NewTicker(s.every)
	defer tick.Stop()
	for {
		s.sample()
		select {
		case <-tick.C:
		case <-s.changed:
		case <-s.stop:
			s.write(line{Run: &s.current})
			if s.cancel != nil {
				s.cancel()
			}
			return
		}
	}
}

// sample asks the node once.
func (s *sampler) sample() {
	one := Run{Who: s.who, Count: 1}
	one.First.Before = Now()
	one.Leads, one.Token = s.node.Leads()
	one.First.After = Now()
	one.Last = one.First
	if !one.Leads {
		one.Token = 0
	}
	if one.Leads != s.current.Leads || one.Token != s.current.Token || one.Last.After.Sub(s.asked) >= askEvery {
		s.ask()
	}
	one.State = s.state
	before := s.current
	extended := s.current.extend(one)
	switch {
	case !extended && before != s.told:
		s.write(line{Run: &before}, line{Run: &s.current})
	case !extended || one.Last.After.Sub(s.told.Last.After) >= tellEvery:
		s.write(line{Run: &s.current})
	default:
		return
	}
	s.told = s.current
}

// extend makes one more sample part of the run, or, if it is unlike it or came late,
// the first of the next run.
func (r *Run) extend(one Run) bool {
	if r.Count == 0 || r.Leads != one.Leads || r.Token != one.Token || r.State != one.State ||
		one.First.Before.Sub(r.Last.Before) > maxPause {
		*r = one
		return false
	}
	r.Last = one.Last
	r.Count++
	return true
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
