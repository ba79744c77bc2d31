package history

import "time"

const (
	// sampleEvery is the time between two samples of a node.
	sampleEvery = time.Millisecond
	// askEvery is the time between two queries of its state while nothing changes.
	askEvery = 100 * time.Millisecond
	// writeEvery limits the part of an unchanged run that a crash can lose.
	writeEvery = 20 * time.Millisecond
	// maxPause is the time without a sample that ends a run: the process was paused or starved, and the node is
	// not to blame for its inactivity.
	maxPause = 100 * time.Millisecond
)

// sampler samples one node. Only its own goroutine uses it.
type sampler struct {
	node  Node
	who   NodeLife
	every time.Duration
	write func(...recordLine)
	stop  <-chan struct{}

	changed   <-chan struct{}
	cancel    func()
	asked     Instant // when the state was last queried
	state     State
	leads     subjectTrack
	shards    []subjectTrack // by number
	shardRuns []Run          // the answers of one round, by shard
}

// subjectTrack holds the samples of one subject.
type subjectTrack struct {
	subject Subject
	current Run // in progress; Count is 0 before the first sample
	written Run // the part of it that is written
}

func (s *sampler) run() {
	tick := time.NewTicker(s.every)
	defer tick.Stop()
	for {
		s.sampleNode()
		select {
		case <-tick.C:
		case <-s.changed:
		case <-s.stop:
			s.write(s.unwrittenLines()...)
			if s.cancel != nil {
				s.cancel()
			}
			return
		}
	}
}

// sampleNode asks the node all questions once.
func (s *sampler) sampleNode() {
	one, before := s.sampleLeadership(), s.leads.current
	if one.Leads != before.Leads || one.Token != before.Token || one.First.After.Sub(s.asked) >= askEvery {
		s.queryState()
	}
	if before.Leads && !one.Leads && s.state != NoSession {
		// Its session may have been confirmed before the state was queried, which then does not explain the
		// answer. If the node still leads by the same term, the new answer is used; a flag that is down for
		// longer is seen.
		if again := s.sampleLeadership(); again.Leads && again.Token == before.Token && again.Session == before.Session {
			one = again
		}
	}
	one.State = s.state
	lines := append(s.leads.addSample(one, true), s.sampleShards()...)
	if len(lines) > 0 {
		s.write(lines...)
	}
}

// sampleLeadership asks the node once whether it leads.
func (s *sampler) sampleLeadership() Run {
	return Run{NodeLife: s.who, Count: 1}.sampleClaim(s.currentSession, func() (token int64, ok bool) {
		ok, token = s.node.Leads()
		return token, ok
	})
}

// sampleClaim fills in a run's first sample: whether there is a claim, its token, and its session. If the session
// changed during the question, sampleClaim repeats it, because the process may have stood still in between and lost its
// session. After ten attempts the answers are wrong, and sampleClaim returns the last one, so that it is reported.
func (r Run) sampleClaim(session func() int64, claim func() (token int64, ok bool)) Run {
	r.Session = session()
	for range 10 {
		r.First.Before = Now()
		r.Token, r.Leads = claim()
		r.First.After = Now()
		if !r.Leads {
			r.Token, r.Session = 0, 0
			break
		}
		before := r.Session
		if r.Session = session(); r.Session == before {
			break
		}
	}
	return r
}

// sampleShards asks about one shard after the other; the end of one question is the start of the next. If the
// session changed during the round, its answers are dropped, because the next round follows soon.
func (s *sampler) sampleShards() (lines []recordLine) {
	if s.node.Shards == nil {
		return nil
	}
	for n := s.node.Shards(); len(s.shards) < n; {
		s.shards = append(s.shards, subjectTrack{subject: Shard(len(s.shards))})
	}
	session := s.currentSession()
	s.shardRuns = s.shardRuns[:0]
	at := Now()
	for i := range s.shards {
		one := Run{NodeLife: s.who, Subject: s.shards[i].subject, Count: 1}
		one.First.Before = at
		if epoch, ok := s.node.Serves(i); ok {
			one.Leads, one.Token, one.Session = true, epoch, session
		}
		at = Now()
		one.First.After = at
		s.shardRuns = append(s.shardRuns, one)
	}
	if s.currentSession() != session {
		return nil
	}
	for i, one := range s.shardRuns {
		// A shard that remains unserved need not be written: see findUnserved.
		lines = append(lines, s.shards[i].addSample(one, one.Leads)...)
	}
	return lines
}

func (s *sampler) currentSession() int64 {
	if s.node.Session == nil {
		return 0
	}
	return s.node.Session()
}

// addSample adds a sample to the track and returns the lines to write: a change at once and, if alive, regularly that
// the run continues.
func (t *subjectTrack) addSample(one Run, alive bool) []recordLine {
	one.Last = one.First
	before := t.current
	extended := t.current.extend(one)
	var lines []recordLine
	switch {
	case !extended && before != t.written:
		lines = []recordLine{lineOf(before), lineOf(t.current)}
	case !extended || alive && one.Last.After.Sub(t.written.Last.After) >= writeEvery:
		lines = []recordLine{lineOf(t.current)}
	default:
		return nil
	}
	t.written = t.current
	return lines
}

func lineOf(r Run) recordLine { return recordLine{Run: &r} }

// unwrittenLines returns the lines that are not written yet.
func (s *sampler) unwrittenLines() []recordLine {
	lines := []recordLine{lineOf(s.leads.current)}
	for i := range s.shards {
		if s.shards[i].current != s.shards[i].written {
			lines = append(lines, lineOf(s.shards[i].current))
		}
	}
	return lines
}

// extend adds a sample to the run. If the sample differs or came late, it becomes the first of the next run,
// and extend returns false.
func (r *Run) extend(one Run) bool {
	if r.Count == 0 || r.Leads != one.Leads || r.Token != one.Token || r.Session != one.Session || r.State != one.State ||
		one.First.Before.Sub(r.Last.Before) > maxPause {
		*r = one
		return false
	}
	r.Last = one.Last
	r.Count++
	return true
}

// queryState queries the state, which need not be known every millisecond, and subscribes to changes.
func (s *sampler) queryState() {
	s.asked = Now()
	if s.node.State != nil {
		s.state = s.node.State()
	}
	if s.node.Subscribe != nil && s.changed == nil {
		s.changed, s.cancel = s.node.Subscribe()
	}
}
