package processor

import "sync"

// Signal makes a source a [Changer]. A source that is notified of new events can embed it. The zero value
// works. All methods are safe for concurrent use and do not block.
type Signal struct {
	mu sync.Mutex
	c  chan struct{}
}

// Changed implements [Changer].
func (s *Signal) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.c == nil {
		s.c = make(chan struct{})
	}
	return s.c
}

// Notify signals that there may be more to read.
func (s *Signal) Notify() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.c != nil {
		close(s.c)
		s.c = nil
	}
}
